// Package limits decides which connections are admitted: how many there may be, from which
// addresses and at which rate, which address has failed to log in too often, and who is
// banned. It is logic over counters and a clock; it owns no socket, no goroutine and no
// file, and all state is bounded.
//
// It must not import any package of this module but broker, nor net/http, a database or an
// MQTT library. Its errors are for the connection they refuse and for the log; of what a
// client sent they contain its address only.
package limits
