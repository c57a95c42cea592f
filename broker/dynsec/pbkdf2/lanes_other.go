//go:build !goexperiment.simd || !amd64

package pbkdf2

// lanes is how many keys are derived side by side.
const lanes = 1

func deriveAll(batch []*call) {
	for _, c := range batch {
		c.derive()
	}
}
