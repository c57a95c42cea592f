// Package guard decides who may not even try: how many connections there may
// be, from where and how fast, who has failed to log in too often, and who is
// banned. It is logic over counters and a clock; it owns no socket, no
// goroutine and no file, and all it remembers is bounded.
//
// It must not import any package of this module but broker, nor net/http, a
// database or an MQTT library. Its errors are for the connection they refuse and for the
// log, and hold nothing that a client has sent but its address.
package guard
