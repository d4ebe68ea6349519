// The product y = x w^T with weights of four or eight bits, for XLA's FFI.
//
// A weight is a * (code - centre) + b; a and b belong to a block of columns. A
// group of blocks has a float factor for a, and one for b if there are offsets;
// a group of several blocks also has a signed byte for each block's a, then b.
// kLanes rows of w are interleaved by words of 32 bits: of each group the
// factors, the bytes, and the codes, the first in the lowest bits. A word of
// four-bit codes has columns 0, 4, 1, 5, 2, 6, 3, 7.
//
// Lane l of a vector is row l of w, so that no sum runs over lanes. A code
// becomes a float exactly and without a conversion: as the lowest bits of
// 2^n + code, less 2^n + centre. A row's sums have the same order with any
// number of rows of x: code * x in a block, then a * sum + b * total of x.
#include "panels.h"
// Most rows of x at once, and with several vectors of rows of w at once.
constexpr int kMostT = kRegisters == 32 ? 16 : 10, kWide = kRegisters / 8;
constexpr int kPanel = 4;  // vectors of rows of w
constexpr int kTotal = 32;  // columns of a block that has offsets

struct Form {  // as quantised.Form in Python, which adds the rows of w
  int64_t bits, columns, blocks, offsets, centre, rows;
  long steps() const { return columns * bits / 32; }  // words of a block
  long bytes() const { return blocks > 1 ? blocks / 4 : 0; }  // in words
  long head() const { return (1 + offsets) * (1 + bytes()); }
  long words() const { return head() + blocks * steps(); }
  long group() const { return columns * blocks; }
  long vectors() const { return (rows + kLanes - 1) / kLanes; }
};

// x: [K / 8, T, 8]. totals of x: [K / kTotal, T]. sums: [T, R].
template <int bits, int T, int R>
static void multiply(const Form& f, const float* x, const float* totals,
                     const Words* w, Vector* sums, long groups, long stride) {
  const int steps = f.steps(), blocks = f.blocks, head = f.head();
  const int bytes = f.bytes(), offsets = f.offsets;
  const float centre = f.centre;
  for (; groups--; w += f.words())
    for (int b = 0; b < blocks; b++) {
      asm volatile("" ::: "memory");  // leaves the registers to s, not to sums
      const Words* codes = w + head + b * steps;
      Vector s[T][R] = {};
#pragma GCC unroll 1
      for (int j = 0; j < steps; j++) {
        const float* near = x + (bits == 4 ? j * 8 * T : j / 2 * 8 * T + j % 2 * 4);
        Words v[R];
        for (int r = 0; r < R; r++)
          __builtin_prefetch(codes + r * stride + j + 256 / kLanes);
        for (int r = 0; r < R; r++) v[r] = codes[r * stride + j];
#pragma GCC unroll 8
        for (int i = 0; i < 32 / bits; i++) {
          const int at = bits * i % 16, n = 23 - at;
          const int k = bits == 4 ? i % 2 * 4 + i / 2 : i;
          const uint32_t mask = ((1u << bits) - 1) << at, power = 127 + n << 23;
          for (int r = 0; r < R; r++) {
            if (i && at == 0) v[r] >>= 16;
            const Vector code =
                (Vector)(v[r] & mask | power) - (float(1 << n) + centre);
            for (int t = 0; t < T; t++)
              s[t][r] = fused(code, near[t * 8 + k] - Vector{}, s[t][r]);
          }
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) {
        auto factor = [&, own = w + r * stride](int which) {
          const Vector whole = (Vector)own[which];
          if (!bytes) return whole;
          const Words four = own[1 + offsets + which * bytes + b / 4];
          const Signed byte = (Signed)(four << (24 - b % 4 * 8)) >> 24;
          return whole * __builtin_convertvector(byte, Vector);
        };
        const Vector a = factor(0);
#pragma GCC unroll 16
        for (int t = 0; t < T; t++)
          sums[t * R + r] = fused(a, s[t][r], sums[t * R + r]);
        if (!offsets) continue;
        const Vector o = factor(1);
#pragma GCC unroll 16
        for (int t = 0; t < T; t++)
          sums[t * R + r] = fused(o, totals[t] - Vector{}, sums[t * R + r]);
      }
      x += f.columns * T;
      if (offsets) totals += T;
    }
}

// The same for t <= T rows of x and `count` vectors of rows of w.
template <int bits, int T>
static void rows(const Form& f, long t, const float* x, const float* totals,
                 const Words* w, float* y, long K, long O, long count) {
  if constexpr (T > 1)
    if (t < T) return rows<bits, T - 1>(f, t, x, totals, w, y, K, O, count);
  const long groups = K / f.group(), stride = groups * f.words();
  auto run = [&](auto constant) {
    constexpr int R = decltype(constant)::value;
    for (; count >= R; count -= R, w += R * stride, y += R * kLanes) {
      Vector sums[T * R] = {};
      multiply<bits, T, R>(f, x, totals, w, sums, groups, stride);
      for (int u = 0; u < T; u++)
        memcpy(y + u * O, sums + u * R, R * sizeof *sums);
    }
  };
  run(std::integral_constant<int, T <= kWide ? kPanel : 1>());
  run(std::integral_constant<int, 1>());
}

// x [T, K] as [K / 8, part of T, 8], and the totals as [K / kTotal, part of T].
struct Packed {
  std::vector<float> x, totals;
  Packed(const float* from, long T, long K, long parts)
      : x(T * K), totals(T * (K / kTotal)) {
    for (long p = 0; p < parts; p++) {
      const long t = T * p / parts, n = T * (p + 1) / parts - t;
      for (long u = 0; u < n; u++, from += K)
        for (long k = 0; k < K; k += kTotal) {
          float eight[8] = {};
          for (long i = k; i < std::min(k + kTotal, K); i += 8) {
            memcpy(&x[t * K + i * n + u * 8], from + i, 32);
            for (int j = 0; j < 8; j++) eight[j] += from[i + j];
          }
          for (int j = 1; j < 8; j++) eight[0] += eight[j];
          totals[(t * K + k * n) / kTotal + u] = eight[0];
        }
    }
  }
};

static ffi::Error quantised(
    ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::U32> w,
    ffi::ResultBuffer<ffi::F32> y, ffi::Span<const int64_t> numbers) {
  const long T = x.dimensions()[0], K = x.dimensions()[1];
  const long O = y->dimensions()[1], parts = (T + kMostT - 1) / kMostT;
  auto packed = std::make_shared<Packed>(x.typed_data(), T, K, parts);
  struct Panel { Form form; const Words* w; float* y; long count; };
  std::vector<Panel> panels;
  const Words* from = (const Words*)w.untyped_data();
  float* to = y->typed_data();
  for (size_t i = 0; i < numbers.size(); i += 6) {
    Form f;
    memcpy(&f, numbers.begin() + i, sizeof f);
    for (long v = f.vectors(), n; v > 0; v -= n, to += n * kLanes) {
      n = std::min<long>(kPanel, v);
      panels.push_back({f, from, to, n});
      from += n * (K / f.group()) * f.words();
    }
  }
  auto all = std::make_shared<std::vector<Panel>>(std::move(panels));
  share(pool, all->size(), K * O, [=](long i) {
    const Panel& it = (*all)[i];
    auto run = it.form.bits == 4 ? rows<4, kMostT> : rows<8, kMostT>;
    for (long p = 0, t = 0, end; p < parts; p++, t = end)
      run(it.form, (end = T * (p + 1) / parts) - t, &packed->x[t * K],
          &packed->totals[t * (K / kTotal)], it.w, it.y + t * O, K, O, it.count);
  });
  return ffi::Error::Success();
}
extern "C" int Lanes() { return kLanes; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Quantised, quantised,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>()
        .Arg<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::F32>>()
        .Attr<ffi::Span<const int64_t>>("numbers"));
