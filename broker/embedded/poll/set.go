//go:build linux

package poll

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// atOnce is how many connections a Wait returns at most.
const atOnce = 256

// Set is connections for whose bytes one goroutine waits. All methods but Wait and Sleep are safe
// for concurrent use.
//
// The goroutine waits as for any socket of the runtime: for notifier, an epoll instance that has
// nothing but members, the one that has the connections. It is notified only while members is
// attached to it: otherwise each arrival would wake a thread even while the goroutine is running
// or sleeping.
type Set[T comparable] struct {
	notifier *os.File
	raw      syscall.RawConn // of notifier
	members  int             // descriptor
	attached bool            // notifier is notified
	events   []unix.EpollEvent
	check    func(notifier uintptr) bool // fills in events; allocated once
	n        int                         // of events
	failed   error                       // of check

	mu     sync.Mutex // guards what follows
	owners []T        // by descriptor; the zero value for none
}

// NewSet returns an empty Set.
func NewSet[T comparable]() (*Set[T], error) {
	members, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	s := &Set[T]{members: members, events: make([]unix.EpollEvent, atOnce)}
	s.check = s.isReady
	if err := s.openNotifier(); err != nil {
		return nil, errors.Join(err, unix.Close(members))
	}
	return s, nil
}

func (s *Set[T]) openNotifier() error {
	notifier, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	err = errors.Join(unix.SetNonblock(notifier, true), unix.EpollCtl(notifier, unix.EPOLL_CTL_ADD, s.members, &unix.EpollEvent{}))
	if err != nil {
		return errors.Join(os.NewSyscallError("epoll_ctl", err), unix.Close(notifier))
	}
	s.notifier = os.NewFile(uintptr(notifier), "epoll")
	s.raw, err = s.notifier.SyscallConn()
	return err
}

// Close ends Wait. It must be called while no connection is in the Set.
func (s *Set[T]) Close() {
	s.notifier.Close() //nolint:errcheck // nothing left to do with it
}

// Add adds a connection. Wait returns its owner while there is something to read, be it the
// end or an error, until Remove.
func (s *Set[T]) Add(c *Conn, who T) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return net.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var none T
	for len(s.owners) <= c.fd {
		s.owners = append(s.owners, none)
	}
	s.owners[c.fd] = who
	err := unix.EpollCtl(s.members, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(c.fd)})
	if err != nil {
		s.owners[c.fd] = none
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// Remove removes a connection. Only the goroutine that calls Wait may call it, unless it can do with
// a Wait that returns the owner once more.
func (s *Set[T]) Remove(c *Conn) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return
	}
	s.forget(c)
	unix.EpollCtl(s.members, unix.EPOLL_CTL_DEL, c.fd, nil) //nolint:errcheck // it may have been removed already
}

// CloseMember is Remove, and closes the connection. Where that leaves no descriptor of the
// connection, the system removes it.
func (s *Set[T]) CloseMember(c *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	s.forget(c)
	if c.file != nil || c.shared {
		unix.EpollCtl(s.members, unix.EPOLL_CTL_DEL, c.fd, nil) //nolint:errcheck // it is there
	}
	c.release()
}

// forget removes the owner of a connection.
func (s *Set[T]) forget(c *Conn) {
	var none T
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[c.fd] = none
}

// Wait waits until some connections have something to read, and appends their owners to list.
func (s *Set[T]) Wait(list []T) ([]T, error) {
	err := s.raw.Read(s.check)
	if err = errors.Join(err, s.failed); err != nil {
		unix.Close(s.members) //nolint:errcheck // nothing left to do with it
		return list, err
	}
	var none T
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events[:s.n] {
		if who := s.owners[e.Fd]; who != none {
			list = append(list, who)
		}
	}
	return list, nil
}

// isReady fills in the events, and reports whether there are any or it has failed. If not, notifier is
// notified of the next ones.
func (s *Set[T]) isReady(notifier uintptr) bool {
	s.n, s.failed = ready(s.members, s.events)
	if s.n == 0 && s.failed == nil && !s.attached {
		s.failed = s.attach(int(notifier), unix.EPOLLIN)
	}
	return s.n > 0 || s.failed != nil
}

// attach attaches members to notifier, or detaches it if there are no events.
func (s *Set[T]) attach(notifier int, events uint32) error {
	s.attached = events != 0
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(notifier, unix.EPOLL_CTL_MOD, s.members, &unix.EpollEvent{Events: events}))
}

// Sleep pauses the goroutine for less than a millisecond, which the runtime's timers do not do.
// What arrives meanwhile costs nothing until the next Wait.
func (s *Set[T]) Sleep(d time.Duration) error {
	var err error
	if s.attached {
		err = s.raw.Control(func(notifier uintptr) { err = s.attach(int(notifier), 0) })
	}
	t := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&t, nil) //nolint:errcheck // a signal makes it shorter
	return err
}

// ready fills in what is ready now. It does not wait, so the scheduler need not know of the call.
func ready(epoll int, events []unix.EpollEvent) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, os.NewSyscallError("epoll_pwait", errno)
		}
	}
}
