// The product of a few rows with a weight matrix, y = x w^T, for XLA's FFI.
//
// The time is that of reading the weights, if each is read from memory once. A
// block of T rows of x and R rows of w keeps T x R vectors of sums in registers.
// Panels of rows of w are read in chunks of columns, so short that the chunks of
// x stay in the first cache; each block prefetches the next. Lane l of a sum adds
// up columns l, l + kLanes, .. in this order, whatever T and R are: so a row's
// result has the same bits with any number of other rows.
#include "panels.h"
// Most rows of a block, rows of w in a panel, floats of x in a chunk.
constexpr int kMostT = kRegisters / 4, kPanel = 48, kChunk = 4096;

static Vector load(const float* p) { return *(const Vector*)p; }
static Vector load(const uint16_t* p) {  // a bfloat16 is a float's upper half
  return (Vector)(__builtin_convertvector(*(const Halves*)p, Words) << 16);
}
static float total(const float* lanes) {
  float s[kLanes];
  memcpy(s, lanes, sizeof s);
#pragma GCC unroll 5
  for (int n = kLanes / 2; n; n /= 2)
    for (int i = 0; i < n; i++) s[i] += s[i + n];
  return s[0];
}

// Adds the products of n columns to sums[t, r]. `ahead` is what is read next.
template <int T, int R, typename W>
static void block(const float* x, const W* w, const W* ahead, Vector* sums,
                  long K, long n) {
  constexpr int kLine = 64 / sizeof(W);
  Vector s[T][R];
  for (int t = 0; t < T; t++)
    for (int r = 0; r < R; r++) s[t][r] = sums[t * kPanel + r];
  for (long k = 0; k < n; k += kLine) {
    for (int r = 0; r < R; r++) __builtin_prefetch(ahead + r * K + k, 0, 2);
    for (long u = k; u < k + kLine; u += kLanes)
      for (int t = 0; t < T; t++)
        for (int r = 0; r < R; r++)
          s[t][r] = fused(load(x + t * K + u), load(w + r * K + u), s[t][r]);
  }
  for (int t = 0; t < T; t++)
    for (int r = 0; r < R; r++) sums[t * kPanel + r] = s[t][r];
}

// The same for t <= T rows of x and `count` rows of w.
template <int T, typename W>
static void rows(long t, const float* x, const W* w, const W* after,
                 Vector* sums, long K, long n, long count) {
  if constexpr (T > 1)
    if (t < T) return rows<T - 1>(t, x, w, after, sums, K, n, count);
  constexpr int R = std::min(4, (kRegisters - 1) / (T + 1));
  long r = 0;
  for (; r + R <= count; r += R)
    block<T, R>(x, w + r * K, r + 2 * R > count ? after : w + (r + R) * K,
                sums + r, K, n);
  for (; r < count; r++) block<T, 1>(x, w + r * K, after, sums + r, K, n);
}

template <typename W>
static void product(ffi::ThreadPool& pool, long T, long K, long O,
                    const float* x, const void* weights, float* y) {
  const long groups = (T + kMostT - 1) / kMostT;  // of rows of x
  const long chunk = kChunk * groups / T / 64 * 64;
  const long panels = (O + kPanel - 1) / kPanel;
  share(pool, panels, K * O, [=](long p) {
    std::vector<float> sums(T * kPanel * kLanes);
    const long o = p * kPanel, count = std::min<long>(kPanel, O - o);
    for (long k = 0, n; k < K; k += n) {
      n = std::min(chunk, K - k);
      const W* w = (const W*)weights + o * K + k;
      const W* after = k + n < K ? w + n : w + count * K - k;
      for (long t = 0, g = 1, end; g <= groups; g++, t = end)
        rows<kMostT>((end = T * g / groups) - t, x + t * K + k, w, after,
                     (Vector*)&sums[t * kPanel * kLanes], K, n, count);
    }
    for (long t = 0; t < T; t++)
      for (long r = 0; r < count; r++)
        y[t * O + o + r] = total(&sums[(t * kPanel + r) * kLanes]);
  });
}

static ffi::Error few_tokens(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x,
                             ffi::AnyBuffer w, ffi::ResultBuffer<ffi::F32> y) {
  auto run = w.element_type() == ffi::F32 ? product<float> : product<uint16_t>;
  run(pool, x.dimensions()[0], x.dimensions()[1], w.dimensions()[0],
      x.typed_data(), w.untyped_data(), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    FewTokens, few_tokens,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>()
        .Arg<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::F32>>());
