package suite

import (
	"fmt"
	"math/rand/v2"
	"runtime"
)

// Host returns an address of the loopback interface that no other test has, so that a
// port there stays free while its listener is closed, and a peer is identified by its
// address. If there is only one such address, Host returns that.
func Host() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(255), 2+rand.IntN(250))
}
