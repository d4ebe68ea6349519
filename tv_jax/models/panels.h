// What the products of few_tokens.cc and quantised.cc share: vectors, and threads
// that take panels of rows of the weights.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
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
