package pbkdf2_test

import (
	"bytes"
	std "crypto/pbkdf2"
	"crypto/sha512"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"signalbox/broker/dynsec/pbkdf2"
)

// TestKey derives keys for many callers at once, with passwords and salts of all lengths and few different counts of
// iterations, and compares them with those of the standard library.
func TestKey(t *testing.T) {
	t.Parallel()
	var callers sync.WaitGroup
	for n := range 200 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for range 5 {
				password, salt, iterations := letters(random, 300), letters(random, 100), 1+random.IntN(4)*100
				compare(t, password, salt, iterations)
			}
		})
	}
	callers.Wait()
}

func compare(t *testing.T, password, salt []byte, iterations int) {
	want, err := std.Key(sha512.New, string(password), salt, iterations, pbkdf2.Size)
	if err != nil {
		t.Error(err)
	}
	got, err := pbkdf2.Key(password, salt, iterations)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("password %x, salt %x, %d iterations: got %x and %v, want %x", password, salt, iterations, got, err, want)
	}
}

// letters returns up to some random bytes.
func letters(random *rand.Rand, most int) (b []byte) {
	for range random.IntN(most + 1) {
		b = binary.AppendUvarint(b, uint64(random.IntN(128)))
	}
	return b
}

// BenchmarkKey derives keys of 10,000 iterations, for one caller and for as many as are served at once.
func BenchmarkKey(b *testing.B) {
	for name, callers := range map[string]int{"one": 1, "many": pbkdf2.Callers()} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(callers)
			if callers == 1 {
				for b.Loop() {
					pbkdf2.Key([]byte("password"), make([]byte, 64), 10_000) //nolint:errcheck // TestKey compares
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					pbkdf2.Key([]byte("password"), make([]byte, 64), 10_000) //nolint:errcheck // the same
				}
			})
		})
	}
}
