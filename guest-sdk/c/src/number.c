// Doubles and their decimal digits, by exact arithmetic on large integers: correct for every number,
// also without a libc, and slower than tables would be.

#include "internal.h"

// In words of 32 bits: 10^1200, the largest divisor of 800 digits, and 64 bits beside it have fewer.
#define LIMBS 160
// Digits that can decide about rounding; of those behind them it matters whether one is not zero.
#define DIGITS 800

typedef struct {
  int count; // without zeros at the top
  uint32_t limbs[LIMBS];
} big;

static void trim(big *it) {
  while (it->count && !it->limbs[it->count - 1]) it->count--;
}

static void multiply_add(big *it, uint32_t factor, uint32_t more) {
  uint64_t carry = more;
  for (int i = 0; i < it->count; i++) {
    carry += (uint64_t)it->limbs[i] * factor;
    it->limbs[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry) it->limbs[it->count++] = (uint32_t)carry;
}

static void times_ten_to(big *it, int power) {
  for (; power >= 9; power -= 9) multiply_add(it, 1000000000, 0);
  while (power-- > 0) multiply_add(it, 10, 0);
}

static void shift_left(big *it, int bits) {
  int words = bits / 32;
  if (!it->count) return;
  for (int i = it->count - 1; i >= 0; i--) it->limbs[i + words] = it->limbs[i];
  for (int i = 0; i < words; i++) it->limbs[i] = 0;
  it->count += words;
  if (bits % 32) multiply_add(it, (uint32_t)1 << (bits % 32), 0);
}

static int compare(const big *one, const big *other) {
  if (one->count != other->count) return one->count < other->count ? -1 : 1;
  for (int i = one->count - 1; i >= 0; i--)
    if (one->limbs[i] != other->limbs[i]) return one->limbs[i] < other->limbs[i] ? -1 : 1;
  return 0;
}

// The difference must not be negative.
static void subtract(big *from, const big *other) {
  int64_t borrow = 0;
  for (int i = 0; i < from->count; i++) {
    borrow += (int64_t)from->limbs[i] - (i < other->count ? other->limbs[i] : 0);
    from->limbs[i] = (uint32_t)borrow;
    borrow >>= 32;
  }
  trim(from);
}

static void add(big *to, const big *other) {
  uint64_t carry = 0;
  for (int i = 0; i < other->count || i < to->count || carry; i++) {
    if (i == to->count) to->limbs[to->count++] = 0;
    carry += (uint64_t)to->limbs[i] + (i < other->count ? other->limbs[i] : 0);
    to->limbs[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

static int bits_of(const big *it) {
  return it->count ? 32 * it->count - __builtin_clz(it->limbs[it->count - 1]) : 0;
}

static double from_bits(uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// The double that is nearest to over / under, of which both are positive.
static double nearest(big *over, big *under) {
  // The quotient gets 53 bits and one for rounding, fewer for numbers below the normal ones.
  int shift = 55 - (bits_of(over) - bits_of(under));
  if (shift > 1075) shift = 1075;
  shift_left(shift < 0 ? under : over, shift < 0 ? -shift : shift);
  uint64_t quotient = 0;
  int top = bits_of(over) - bits_of(under);
  if (top < 0) top = 0;
  shift_left(under, top);
  for (int i = top; i >= 0; i--) {
    // Rather than to halve the divisor, the rest is doubled.
    bool fits = compare(over, under) >= 0;
    if (fits) subtract(over, under);
    quotient = quotient << 1 | fits;
    if (i) shift_left(over, 1);
  }
  bool is_inexact = over->count != 0;
  int length = 64 - (quotient ? __builtin_clzll(quotient) : 64);
  int drop = length - 53;
  if (drop < 1) drop = 1;
  uint64_t half = (uint64_t)1 << (drop - 1);
  uint64_t rest = quotient & (2 * half - 1);
  quotient >>= drop;
  if (rest > half || (rest == half && (is_inexact || (quotient & 1)))) quotient++;
  // The value is quotient * 2^(drop - shift); the bits of a double continue from subnormal to normal.
  int exponent = drop - shift + 1074;
  if (!(quotient >> 52)) return from_bits(quotient);
  if (quotient >> 53) quotient >>= 1, exponent++;
  if (exponent > 2045) return from_bits((uint64_t)0x7ff << 52);
  return from_bits(((uint64_t)exponent << 52) + quotient);
}

double wl_digits_to_double(wl_text digits) {
  bool is_negative = digits.length && digits.at[0] == '-';
  big over = {0}, under = {.count = 1, .limbs = {1}};
  int64_t exponent = 0, count = 0;
  bool is_fraction = false, has_rest = false;
  uint64_t small = 0;
  size_t i = is_negative;
  for (; i < digits.length; i++) {
    char c = digits.at[i];
    if (c == '.') {
      is_fraction = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    exponent -= is_fraction;
    if (!count && c == '0') continue;
    if (++count <= DIGITS) {
      if (count <= 15) small = small * 10 + (uint64_t)(c - '0');
      if (!over.count && c != '0') over.limbs[over.count++] = (uint32_t)(c - '0');
      else multiply_add(&over, 10, (uint32_t)(c - '0'));
    } else {
      exponent++;
      has_rest |= c != '0';
    }
  }
  if (has_rest) multiply_add(&over, 10, 1), exponent--;
  if (count > DIGITS) count = DIGITS;
  int64_t power = 0;
  bool is_small = i + 1 < digits.length && digits.at[i + 1] == '-';
  for (i++; i < digits.length; i++)
    if (digits.at[i] >= '0' && digits.at[i] <= '9' && power < 100000000)
      power = power * 10 + (digits.at[i] - '0');
  exponent += is_small ? -power : power;
  double value;
  if (!over.count || exponent + count < -400) value = 0;
  else if (exponent + count > 400) value = from_bits((uint64_t)0x7ff << 52);
  else if (!exponent && count <= 15) value = (double)small;
  else {
    if (exponent > 0) times_ten_to(&over, (int)exponent);
    else times_ten_to(&under, (int)-exponent);
    value = nearest(&over, &under);
  }
  return is_negative ? -value : value;
}

// The shortest digits that read as this number (Steele and White's algorithm), at most 17, and the
// position of the decimal point behind the first of them.
static int shortest(double value, char *digits, int *point) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  int exponent = (int)(bits >> 52 & 0x7ff);
  uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
  bool is_even = !(fraction & 1), is_edge = !fraction && exponent > 1;
  if (exponent) fraction |= (uint64_t)1 << 52;
  else exponent = 1;
  exponent -= 1075;
  // The value is over / under, and the halves of the distances to its neighbours above and below
  // are `above` and `below` / under.
  big over = {.count = 2, .limbs = {(uint32_t)fraction, (uint32_t)(fraction >> 32)}};
  trim(&over);
  big under = {.count = 1, .limbs = {1}}, above = under, below = under;
  shift_left(&over, 1 + is_edge + (exponent > 0 ? exponent : 0));
  shift_left(&under, 1 + is_edge + (exponent < 0 ? -exponent : 0));
  if (exponent > 0) shift_left(&above, exponent), shift_left(&below, exponent);
  if (is_edge) shift_left(&above, 1);
  int places = 0;
  for (;; places++) {
    big sum = over;
    add(&sum, &above);
    int it = compare(&sum, &under);
    if (it < 0 || (it == 0 && !is_even)) break;
    multiply_add(&under, 10, 0);
  }
  int length = 0;
  for (*point = places;;) {
    multiply_add(&over, 10, 0), multiply_add(&above, 10, 0), multiply_add(&below, 10, 0);
    char digit = '0';
    while (compare(&over, &under) >= 0) subtract(&over, &under), digit++;
    big sum = over;
    add(&sum, &above);
    int low = compare(&over, &below), high = compare(&sum, &under);
    bool is_low = low < 0 || (low == 0 && is_even), is_high = high > 0 || (high == 0 && is_even);
    if (!length && digit == '0' && !is_low && !is_high) {
      --*point;
      continue;
    }
    if (is_low || is_high) {
      multiply_add(&over, 2, 0);
      if (is_high && (!is_low || compare(&over, &under) >= 0)) digit++;
      digits[length++] = digit;
      return length;
    }
    digits[length++] = digit;
  }
}

size_t wl_double_to_digits(double value, char *to) {
  char digits[20], *begin = to;
  int point = 0;
  if (!(value - value == 0)) {
    __builtin_memcpy(to, "null", 4);
    return 4;
  }
  if (__builtin_signbit(value)) *to++ = '-', value = -value;
  if (value == 0) return *to++ = '0', (size_t)(to - begin);
  int length = shortest(value, digits, &point);
  bool is_plain = point > -6 && point <= 17;
  int before = is_plain ? point : 1;
  if (before <= 0) *to++ = '0';
  for (int i = 0; i < before; i++) *to++ = i < length ? digits[i] : '0';
  if (before < length) *to++ = '.';
  for (int i = before; i < 0; i++) *to++ = '0';
  for (int i = before < 0 ? 0 : before; i < length; i++) *to++ = digits[i];
  if (!is_plain) {
    int power = point - 1;
    *to++ = 'e';
    if (power < 0) *to++ = '-', power = -power;
    if (power >= 100) *to++ = (char)('0' + power / 100);
    if (power >= 10) *to++ = (char)('0' + power / 10 % 10);
    *to++ = (char)('0' + power % 10);
  }
  return (size_t)(to - begin);
}
