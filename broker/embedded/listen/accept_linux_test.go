package listen_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/broker/embedded/listen"
)

// TestAcceptedOptions sets the options of connections that are accepted by Watch, as package net
// does.
func TestAcceptedOptions(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "mqtt"})
	r.dial(0)
	c := r.next()
	if !c.Watched() {
		t.Fatal("the connection was not accepted by Watch")
	}
	for name, o := range map[string]struct{ level, option, want int }{
		"no delay":     {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		"keep alive":   {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"idle time":    {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		"interval":     {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		"lost at most": {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		err := c.Descriptor().Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), o.level, o.option); got != o.want || err != nil {
				t.Errorf("%s: %d, %v; want %d", name, got, err, o.want)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestOutOfDescriptors accepts a connection once there is a descriptor for it.
func TestOutOfDescriptors(t *testing.T) { // not parallel: it takes the descriptors of the process
	r := serve(t, options{}, listen.Config{Protocol: "mqtt"})
	to, err := net.ResolveTCPAddr("tcp", r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0) // the lowest descriptor
	if err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(fd) + 1, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())})
	if err == nil {
		eventually(t, "it is logged", func() bool { return r.log.count("connections could not be accepted") == 1 })
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	peer, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	wantEcho(t, peer, "served after all")
	wantEcho(t, r.dial(0), "and others")
	if n := r.log.count("connections could not be accepted"); n != 1 {
		t.Errorf("%d log lines, want one", n)
	}
}
