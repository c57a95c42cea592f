package systemtest

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestDataModel checks that the model of the platform's data refuses what a cluster must not return, and that a bound of
// operations of unknown outcome changes no result.
func TestDataModel(t *testing.T) {
	t.Parallel()
	set := func(call, end int64, value string) porcupine.Operation {
		return porcupine.Operation{Input: dataOperation{register: "r", sets: true, value: value}, Output: dataResult{}, Call: call, Return: end}
	}
	lost := func(call int64, value string) porcupine.Operation {
		return porcupine.Operation{Input: dataOperation{register: "r", sets: true, value: value}, Output: dataResult{unknown: true}, Call: call, Return: math.MaxInt64}
	}
	read := func(call, end int64, value string) porcupine.Operation {
		return porcupine.Operation{Input: dataOperation{register: "r"}, Output: dataResult{returned: true, value: value}, Call: call, Return: end}
	}
	revoke := func(call, end int64, before string) porcupine.Operation {
		return porcupine.Operation{Input: dataOperation{register: "r", sets: true}, Output: dataResult{returned: true, value: before}, Call: call, Return: end}
	}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"read after a set":                          {[]porcupine.Operation{set(1, 2, "a"), read(3, 4, "a")}, true},
		"read during a set":                         {[]porcupine.Operation{set(1, 2, "a"), set(3, 6, "b"), read(4, 5, "a")}, true},
		"an older value":                            {[]porcupine.Operation{set(1, 2, "a"), set(3, 4, "b"), read(5, 6, "a")}, false},
		"a lost set":                                {[]porcupine.Operation{set(1, 2, "a"), read(3, 4, "")}, false},
		"back to an older value during a set":       {[]porcupine.Operation{set(1, 2, "a"), set(3, 9, "b"), read(4, 5, "b"), read(6, 7, "a")}, false},
		"unknown, never returned":                   {[]porcupine.Operation{set(1, 2, "a"), lost(3, "b"), read(4, 5, "a")}, true},
		"unknown, returned late":                    {[]porcupine.Operation{set(1, 2, "a"), lost(3, "b"), read(4, 5, "a"), read(6, 7, "b")}, true},
		"unknown, returned before it was asked for": {[]porcupine.Operation{set(1, 2, "a"), read(3, 4, "b"), lost(5, "b")}, false},
		"unknown, returned and lost":                {[]porcupine.Operation{set(1, 2, "a"), lost(3, "b"), read(4, 5, "b"), read(6, 7, "a")}, false},
		"a revoked token is refused":                {[]porcupine.Operation{set(1, 2, tokenValid), revoke(3, 4, tokenValid), read(5, 6, "")}, true},
		"a revoked token is accepted":               {[]porcupine.Operation{set(1, 2, tokenValid), revoke(3, 4, tokenValid), read(5, 6, tokenValid)}, false},
		"a new token is refused":                    {[]porcupine.Operation{set(1, 2, tokenValid), read(3, 4, "")}, false},
		"revoked by an unknown attempt":             {[]porcupine.Operation{set(1, 2, tokenValid), lost(3, ""), read(4, 5, tokenValid), read(6, 7, ""), revoke(8, 9, "")}, true},
		"not found without an attempt":              {[]porcupine.Operation{set(1, 2, tokenValid), revoke(3, 4, "")}, false},
		"revoked twice":                             {[]porcupine.Operation{set(1, 2, tokenValid), revoke(3, 4, tokenValid), revoke(5, 6, tokenValid)}, false},
	} {
		if got := porcupine.CheckOperations(dataModel, c.history); got != c.want {
			t.Errorf("%s: linearizable is %t, want %t", name, got, c.want)
		}
		if got := porcupine.CheckOperations(dataModel, bounded(c.history)); got != c.want {
			t.Errorf("%s, with bounds: linearizable is %t, want %t", name, got, c.want)
		}
	}
}
