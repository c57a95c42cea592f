package replicas

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage/storagetest"
	"signalbox/scripts/suite"
)

const (
	killedPrimary  = "REPLICAS_PRIMARY"  // folder, and addresses of the other nodes, for the process that is killed
	killedReceiver = "REPLICAS_RECEIVER" // folder of the process that is killed
	kills          = "REPLICAS_KILLS"    // how many processes a test kills; default 12

	killedSessions = 8
	window         = 10 // messages queued for each session
)

// sockets is a Net over TCP: a request and a response are a length and the bytes.
type sockets struct {
	mu        sync.Mutex
	addresses map[int]string
}

func (s *sockets) set(node int, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[node] = address
}

func (s *sockets) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	s.mu.Lock()
	address := s.addresses[to]
	s.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := writeFrame(conn, request); err != nil {
		return nil, err
	}
	return readFrame(conn)
}

func writeFrame(w io.Writer, b []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// serveConn serves the request of a connection.
func serveConn(r *Receiver, conn net.Conn) {
	defer conn.Close()
	request, err := readFrame(conn)
	if err != nil {
		return
	}
	if response, err := r.Serve(context.Background(), 1, request); err == nil {
		writeFrame(conn, response) //nolint:errcheck // the other node repeats its request
	}
}

// TestCampaignKillPrimary repeatedly kills a process whose sessions have replicas here. What it reported as
// committed must be in the replicas.
func TestCampaignKillPrimary(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, net: &network{receivers: map[int]*Receiver{}}, dirs: map[int]string{2: t.TempDir(), 3: t.TempDir()}}
	addresses := ""
	for _, n := range r.nodes() {
		r.startReceiver(n)
		defer r.stopReceiver(n)
		addresses += " " + suite.Listen(t, func(conn net.Conn) { serveConn(r.receiver(n), conn) })
	}
	dir, random, total := t.TempDir(), suite.Rand(t), 0
	for range suite.FromEnvironment(t, kills, 12) {
		newest, killAfter, settled := uint64(0), 1+random.IntN(500), 0
		storagetest.Kill(t, killedPrimary+"="+dir+addresses, func(line string) (kill bool) {
			number, err := strconv.ParseUint(line, 10, 64)
			must(t, err)
			if number != newest+1 && newest != 0 {
				t.Errorf("change %d was reported after %d", number, newest)
			}
			newest = number
			settled++
			return settled == killAfter
		})
		total += settled
		verifyReplicas(t, r.replicated(), newest)
	}
	t.Logf("%d changes reported", total)
}

// verifyReplicas checks that all sessions have the messages of their window up to the newest one, or later ones.
func verifyReplicas(t *testing.T, all map[string]session, newest uint64) {
	t.Helper()
	if len(all) != killedSessions {
		t.Fatalf("%d sessions have replicas, want %d", len(all), killedSessions)
	}
	for id, s := range all {
		if len(s.Queue) != window {
			t.Fatalf("session %q has %d messages, want %d", id, len(s.Queue), window)
		}
		last := s.Queue[window-1].Seq
		if last < newest {
			t.Errorf("session %q ends with message %d, but %d was reported as committed", id, last, newest)
		}
		for i, q := range s.Queue {
			if want := last - window + 1 + uint64(i); q.Seq != want || string(q.Message.Payload) != fmt.Sprint("payload ", want) {
				t.Fatalf("session %q has message %d (%s), want %d", id, q.Seq, q.Message.Payload, want)
			}
		}
	}
}

// submitUntilKilled is the process that TestCampaignKillPrimary kills. It prints the number of each change that
// is reported as committed while the replicas are complete.
func submitUntilKilled(variable string) {
	parts := strings.Fields(variable)
	nodes := &sockets{addresses: map[int]string{2: parts[1], 3: parts[2]}}
	p, err := openPrimary(context.Background(), parts[0], Options{Net: nodes, Timeout: time.Hour})
	if err != nil {
		panic(err)
	}
	snapshot, err := p.Load(context.Background())
	if err != nil {
		panic(err)
	}
	number := snapshot.LastMessageID
	if number == 0 {
		for number < window {
			number++
			<-p.submit(killedChange(number))
		}
	}
	p.SetPeers([]int{2, 3})
	for slices.ContainsFunc(p.Figures(), func(f Figures) bool { return !f.Complete }) { // with changes meanwhile
		number++
		<-p.submit(killedChange(number))
	}
	for {
		p.WaitForCapacity()
		number++
		c := killedChange(number)
		c.Done = ordered(func(err error) {
			if err != nil {
				panic(err)
			}
			fmt.Println(c.Messages[0].ID)
		})
		p.Submit(c)
	}
}

// killedChange enqueues a message for all sessions, which it opens with the first one, and dequeues another one.
func killedChange(number uint64) *engine.Changes {
	m := &engine.Message{ID: number, Topic: "a", Payload: fmt.Append(nil, "payload ", number)}
	c := &engine.Changes{Messages: []*engine.Message{m}}
	for id := range uint64(killedSessions) {
		if number == 1 {
			c.PutSessions = append(c.PutSessions, engine.SessionRecord{ID: id + 1, ClientID: fmt.Sprint("client ", id), Version: 5, ExpiryInterval: 3600})
		}
		c.Enqueued = append(c.Enqueued, engine.QueueRecord{SessionID: id + 1, Seq: number, Message: m, QoS: 1})
		if number > window {
			c.Dequeued = append(c.Dequeued, engine.QueueRecord{SessionID: id + 1, Seq: number - window})
		}
	}
	return c
}

// TestCampaignKillReceiver repeatedly kills the process that has the replicas. A restart continues them.
func TestCampaignKillReceiver(t *testing.T) {
	t.Parallel()
	nodes := &sockets{addresses: map[int]string{}}
	dir := t.TempDir()
	p, err := openPrimary(t.Context(), t.TempDir(), Options{Net: nodes, Timeout: time.Hour, RefusedTimeout: time.Hour})
	must(t, err)
	defer p.shut(t)
	p.sequence.rand = suite.Rand(t)
	for range 100 {
		must(t, <-p.submit(p.sequence.next()))
	}
	p.SetPeers([]int{2})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p.changeUntil(stop)
	}()
	random := suite.Rand(t)
	for range suite.FromEnvironment(t, kills, 12) {
		killAfter := 1 + random.IntN(50)
		storagetest.Kill(t, killedReceiver+"="+dir, func(line string) (kill bool) {
			if strings.Contains(line, ":") {
				nodes.set(2, line)
				return false
			}
			killAfter--
			return killAfter == 0
		})
	}
	receiver, err := OpenReceiver(t.Context(), ReceiverOptions{Dir: dir})
	must(t, err)
	defer func() { must(t, receiver.Close(context.Background())) }()
	nodes.set(2, suite.Listen(t, func(conn net.Conn) { serveConn(receiver, conn) }))
	r := &rig{t: t, primary: p, net: &network{receivers: map[int]*Receiver{2: receiver}}, dirs: map[int]string{2: dir}}
	close(stop)
	<-stopped
	r.awaitComplete()
	r.change(10)
	r.compare()
	t.Logf("the replica was begun %d times", p.Figures()[0].Begun)
}

// changeUntil submits random changes, of which a few wait for their outcome.
func (p *primary) changeUntil(stop <-chan struct{}) {
	for {
		var outcomes []receipt
		for range 20 {
			outcomes = append(outcomes, p.submit(p.sequence.next()))
		}
		for _, o := range outcomes {
			<-o
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// serveUntilKilled is the process that TestCampaignKillReceiver kills. It prints its address, and a line before
// each request.
func serveUntilKilled(dir string) {
	r, err := OpenReceiver(context.Background(), ReceiverOptions{Dir: dir})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	out := bufio.NewWriter(os.Stdout)
	print := func(text string) {
		fmt.Fprintln(out, text)
		if err := out.Flush(); err != nil {
			panic(err)
		}
	}
	print(l.Addr().String())
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(errors.Join(err, l.Close()))
		}
		print("request")
		serveConn(r, conn)
	}
}
