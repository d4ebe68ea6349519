// What the products of few_tokens.cc and quantised.cc share: vectors, and threads
// that take panels of rows of the weights.
//
// Tests run the vectors of AVX-512 and of AVX2 with FMA. Those of NEON are only
// known to compile (clang for aarch64). Other processors have no products here.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
#if defined(__AVX512F__)
constexpr int kLanes = 16, kRegisters = 32;
#elif defined(__x86_64__)
constexpr int kLanes = 8, kRegisters = 16;
#else
constexpr int kLanes = 4, kRegisters = 32;
#endif
#define VECTOR_OF(n) vector_size(n * kLanes), aligned(n), may_alias
typedef float Vector __attribute__((VECTOR_OF(4)));
typedef uint32_t Words __attribute__((VECTOR_OF(4)));
typedef int32_t Signed __attribute__((VECTOR_OF(4)));
typedef uint16_t Halves __attribute__((VECTOR_OF(2)));

// a * b + c, rounded once. Compilers contract such sums in some loops and not in
// others, and then a row's bits would depend on the number of rows.
static Vector fused(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return (Vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return (Vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}

// Calls run(panel) for each panel, in the pool's threads and in this one.
template <class Run>
static void share(ffi::ThreadPool& pool, long panels, long weights, Run run) {
  struct Counts { std::atomic<long> next{0}, done{0}; };
  auto counts = std::make_shared<Counts>();
  auto help = [=] {  // a late helper finds nothing to do
    for (long p; (p = counts->next++) < panels; counts->done++) run(p);
  };
  // A thread is not worth waking for less than 64k weights.
  long threads = std::min<long>({pool.num_threads(), panels, weights >> 16});
  while (--threads > 0) pool.Schedule([=] { help(); });
  help();
  for (long i = 0; counts->done < panels; i++)
    if (i > 1000) std::this_thread::yield();
}
