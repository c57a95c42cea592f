//go:build goexperiment.simd && amd64

package pbkdf2

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"simd/archsimd"
)

// mostLanes is how many numbers the largest vector register has.
const mostLanes = 8

// lanes is how many keys are derived side by side.
var lanes = func() int {
	switch x := archsimd.X86; {
	case x.AVX512():
		return mostLanes
	case x.AVX2():
		return 4
	}
	return 1
}()

// state is a state or a sum of SHA-512 in each lane, block a block of a message: each row has one word of all lanes.
type (
	state [8][mostLanes]uint64
	block [16][mostLanes]uint64
)

// first returns the rows of a block in which a sum is hashed.
func (b *block) first() *state { return (*state)(b[:8]) }

// deriveAll derives the keys of a batch, which has as many calls as there are lanes at most.
func deriveAll(batch []*call) {
	switch {
	case len(batch) == 1:
		batch[0].derive()
	case lanes == mostLanes:
		deriveTogether(batch, compressAVX512, iterateAVX512)
	default:
		deriveTogether(batch, compressAVX2, iterateAVX2)
	}
}

func deriveTogether(batch []*call, compress func(*state, *block, *state), iterate func(inner, outer *state, last *block, key *state, n int)) {
	var inner, outer, last block
	var key state
	for lane, c := range batch {
		setKey(&inner, lane, c.password, 0x36)
		setKey(&outer, lane, c.password, 0x5c)
		mac := hmac.New(sha512.New, c.password)
		mac.Write(c.salt)
		mac.Write([]byte{0, 0, 0, 1}) // the number of the key's only block
		setWords(last[:8], lane, mac.Sum(nil))
	}
	last.pad()
	key = *last.first()
	var innerState, outerState state
	compress(&initial, &inner, &innerState)
	compress(&initial, &outer, &outerState)
	iterate(&innerState, &outerState, &last, &key, batch[0].iterations-1)
	for lane, c := range batch {
		for _, row := range key {
			c.key = binary.BigEndian.AppendUint64(c.key, row[lane])
		}
	}
}

// setKey sets the block of a lane with which HMAC begins (RFC 2104).
func setKey(b *block, lane int, password []byte, with byte) {
	var padded [sha512.BlockSize]byte
	if len(password) > len(padded) {
		sum := sha512.Sum512(password)
		password = sum[:]
	}
	copy(padded[:], password)
	for i := range padded {
		padded[i] ^= with
	}
	setWords(b[:], lane, padded[:])
}

func setWords(rows [][mostLanes]uint64, lane int, from []byte) {
	for i := range rows {
		rows[i][lane] = binary.BigEndian.Uint64(from[8*i:])
	}
}

// pad sets the end of a block whose beginning is a sum, and before which there was a block of HMAC.
func (b *block) pad() {
	const bits = 8 * (sha512.BlockSize + sha512.Size)
	for lane := range mostLanes {
		b[8][lane], b[15][lane] = 1<<63, bits
	}
}
