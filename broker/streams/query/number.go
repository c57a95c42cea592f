package query

import (
	"cmp"
	"math"
	"strconv"
)

// number is a JSON number of any size, exactly: sign × 0.digits × 10^exponent.
// It refers to the text that it was parsed from.
type number struct {
	sign     int    // -1, 0 or 1
	exponent int64  // 0 if the sign is 0
	digits   []byte // from the first to the last that is not 0; may include the point
	count    int    // of digits, without the point
}

// parseNumber parses a valid JSON value, and reports whether it is a number.
func parseNumber(text []byte) (n number, ok bool) {
	if len(text) == 0 || text[0] != '-' && !isDigit(text[0]) {
		return number{}, false
	}
	n.sign = 1
	if text[0] == '-' {
		n.sign, text = -1, text[1:]
	}
	mantissa, exponent := cutExponent(text)
	n.trim(mantissa)
	if n.sign != 0 {
		n.exponent += exponent
	}
	return n, true
}

// trim strips the zeros on both sides of the mantissa and sets digits, count
// and exponent.
func (n *number) trim(mantissa []byte) {
	first, last, point := -1, -1, len(mantissa)
	for i, c := range mantissa {
		switch {
		case c == '.':
			point = i
		case c != '0':
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		n.sign = 0
		return
	}
	n.digits, n.count, n.exponent = mantissa[first:last+1], last+1-first, int64(point-first)
	switch {
	case point < first:
		n.exponent++ // the point itself is not a digit
	case point < last:
		n.count--
	}
}

// maxExponent bounds exponents, so that a length can be added to one without an
// overflow. Numbers beyond it compare by their digits only.
const maxExponent = math.MaxInt64 / 4

// cutExponent splits an unsigned number at its exponent.
func cutExponent(text []byte) (mantissa []byte, exponent int64) {
	for i, c := range text {
		if c|0x20 == 'e' {
			return text[:i], parseExponent(text[i+1:])
		}
	}
	return text, 0
}

func parseExponent(text []byte) (e int64) {
	negative := text[0] == '-'
	for _, c := range text {
		if isDigit(c) {
			e = min(e*10+int64(c-'0'), maxExponent/10)
		}
	}
	if negative {
		return -e
	}
	return e
}

// compare returns -1, 0 or 1 if n is less than, equal to or greater than m.
func (n number) compare(m number) int {
	if n.sign != m.sign || n.sign == 0 {
		return cmp.Compare(n.sign, m.sign)
	}
	if c := cmp.Compare(n.exponent, m.exponent); c != 0 {
		return c * n.sign
	}
	return compareDigits(n.digits, m.digits) * n.sign
}

// compareDigits compares two fractions digit by digit.
func compareDigits(a, b []byte) int {
	for {
		a, b = skipPoint(a), skipPoint(b)
		if len(a) == 0 || len(b) == 0 {
			return cmp.Compare(len(a), len(b))
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
}

func skipPoint(digits []byte) []byte {
	if len(digits) > 0 && digits[0] == '.' {
		return digits[1:]
	}
	return digits
}

// integer returns the value if it is an integer that fits an int64.
func (n number) integer() (v int64, ok bool) {
	if n.sign == 0 {
		return 0, true
	}
	if n.exponent < int64(n.count) || n.exponent > 19 {
		return 0, false
	}
	abs := uint64(0) // 19 digits always fit
	for _, c := range n.digits {
		if c != '.' {
			abs = abs*10 + uint64(c-'0')
		}
	}
	for range n.exponent - int64(n.count) {
		abs *= 10
	}
	if n.sign < 0 {
		return -int64(abs), abs <= 1<<63
	}
	return int64(abs), abs <= math.MaxInt64
}

// scaled returns the value times 10^digits if that is an integer that fits an
// int64.
func (n number) scaled(digits int64) (v int64, ok bool) {
	if n.sign != 0 {
		n.exponent += digits
	}
	return n.integer()
}

// addInts returns the sum, and reports whether it fits an int64.
func addInts(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// appendFloat appends the shortest number that parses to the same float64, with
// an exponent where encoding/json writes one.
func appendFloat(dst []byte, v float64) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

// appendSeconds appends milliseconds as seconds, with as many decimals as
// necessary.
func appendSeconds(dst []byte, ms int64) []byte {
	whole, rest := ms/1000, ms%1000
	if ms < 0 {
		dst, whole, rest = append(dst, '-'), -whole, -rest
	}
	dst = appendInt(dst, whole)
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(100); rest > 0; unit /= 10 {
		dst = append(dst, byte('0'+rest/unit))
		rest %= unit
	}
	return dst
}
