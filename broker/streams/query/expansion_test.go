package query_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"signalbox/broker/streams/query"
)

// comparedSum is a sum of a query beside the exact one.
type comparedSum struct {
	query *query.Query
	state *query.State
	exact *big.Rat
}

func newComparedSum(t *testing.T) *comparedSum {
	t.Helper()
	q := compile(t, `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}}]}`)
	return &comparedSum{q, q.NewState(), new(big.Rat)}
}

// add adds a value to both, and stores and reads the state.
func (c *comparedSum) add(t *testing.T, v float64) {
	t.Helper()
	c.exact.Add(c.exact, new(big.Rat).SetFloat64(v))
	want, _ := c.exact.Float64()
	text := run(c.query, c.state, numberOf(v), 0)
	var got struct{ S float64 }
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.S != want {
		t.Fatalf("after %v the sum is %s, want %v", v, text, want)
	}
	c.state = restored(t, c.query, c.state)
}

// numberOf returns a number in JSON. An integer of 64 bits has all its digits, as its text counts
// exactly; of others the float64 counts.
func numberOf(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'e', -1, 64)
}

// TestSumIsRoundedOnce adds floats of very different size, of which many cancel or lie between
// two that can be output, and compares each sum with the exact one.
func TestSumIsRoundedOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		c := newComparedSum(t)
		var added []float64
		for range 30 {
			added = append(added, randomFloat(r, added))
			c.add(t, added[len(added)-1])
		}
	}
}

// randomFloat returns a float, or takes back one that was added.
func randomFloat(r *rand.Rand, added []float64) float64 {
	if len(added) > 0 && r.IntN(3) == 0 {
		return -pick(r, added)
	}
	mantissa := float64(pick(r, []int64{1, 3, 1<<53 - 1, 1 + r.Int64N(1<<53)}))
	v := math.Ldexp(mantissa, pick(r, []int{-1100, -107, -54, -53, -1, 70, 123, 900, r.IntN(1900) - 1100}))
	return pick(r, []float64{v, -v})
}

// TestSumOfManyParts adds floats of which an exact sum could keep hundreds: each great number
// leaves what is below it alone, and is taken back but for one more part. A state stays small.
func TestSumOfManyParts(t *testing.T) {
	t.Parallel()
	for _, step := range []int{1, 2, 3, 4, 7, 53} {
		for _, sign := range []float64{1, -1} {
			c := newComparedSum(t)
			for k, n := -1000, 0; k < 900; k, n = k+step, n+1 {
				great, part := math.Ldexp(1, k+50), math.Ldexp(math.Pow(sign, float64(n)), k)
				c.add(t, great)
				c.add(t, part-great)
				if size := len(c.state.Append(nil)); size > 600 {
					t.Fatalf("step %d: the state takes %d bytes", step, size)
				}
			}
		}
	}
}
