package monitor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) wantOne(t *testing.T, hints ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.text.String()
	if strings.Count(said, "\n") != 1 {
		t.Errorf("want one line in the log, got:\n%s", said)
	}
	for _, hint := range hints {
		if !strings.Contains(said, hint) {
			t.Errorf("%q is not in the log: %s", hint, said)
		}
	}
}

func openLogged(t *testing.T, path string) (*History, *lines) {
	t.Helper()
	said := &lines{}
	h := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelWarn})), Now: func() time.Time { return epoch }})
	t.Cleanup(func() { must(t, h.Close(context.Background())) })
	return h, said
}

// sampled is a row of the time of the tests, with a number of clients.
func sampled(clients int) row {
	r := row{epoch.Unix(), unknown()}
	r.values[connected] = float64(clients)
	return r
}

// keep stores a sample.
func (h *History) keep(t *testing.T, clients int) {
	t.Helper()
	h.mu.Lock()
	h.sources[brokerID] = &source{pending: []row{sampled(clients)}}
	h.mu.Unlock()
	h.write(t.Context())
}

// wantStored checks the stored number of clients, negative for none.
func (h *History) wantStored(t *testing.T, clients int) {
	t.Helper()
	got, err := h.Read(t.Context(), brokerID, finest, epoch, epoch)
	must(t, err)
	want := known(float64(clients))
	if clients < 0 {
		want = nil
	}
	if diff := cmp.Diff(want, got.Series.Connected.Mean[0]); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
}

// fill makes a file with a sample and returns its path.
func fill(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.db")
	h := Open(t.Context(), path, Options{})
	h.keep(t, 1)
	must(t, h.Close(t.Context()))
	return path
}

// overwrite writes over the pages of a file from an offset on.
func overwrite(t *testing.T, path string, offset int64) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(bytes.Repeat([]byte("noise---"), int(info.Size()-offset)/8), offset)
	must(t, err)
}

// TestUnusableFileIsMovedAside begins anew beside a file that cannot be used.
func TestUnusableFileIsMovedAside(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, path string){
		"not a database": func(t *testing.T, path string) { overwrite(t, path, 0) },
		"damaged":        func(t *testing.T, path string) { overwrite(t, path, 100) },
		"newer": func(t *testing.T, path string) {
			h := Open(t.Context(), path, Options{})
			_, err := h.file.store.writer.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
			must(t, err)
			must(t, h.Close(t.Context()))
		},
		"a folder": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fill(t)
			spoil(t, path)
			before, _ := os.ReadFile(path) //nolint:errcheck // a folder has no content
			h, said := openLogged(t, path)
			said.wantOne(t, "level=WARN", path+asideSuffix)
			h.wantStored(t, -1)
			h.keep(t, 2)
			h.wantStored(t, 2)
			if aside, _ := os.ReadFile(path + asideSuffix); !bytes.Equal(aside, before) { //nolint:errcheck // as above
				t.Error("the file that was moved aside has changed")
			}
		})
	}
}

// TestFileThatCannotBeOpened has a file that cannot be opened or replaced: it stays where it
// is, and the history begins as soon as it can.
func TestFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil, repair func(t *testing.T, path string)
		clients       int // that are found after the repair; negative for none
	}{
		"damaged, and no place to move it to": {
			spoil: func(t *testing.T, path string) {
				overwrite(t, path, 0)
				must(t, os.MkdirAll(filepath.Join(path+asideSuffix, "x"), 0o700))
			},
			repair:  func(t *testing.T, path string) { must(t, os.RemoveAll(path+asideSuffix)) },
			clients: -1,
		},
		"in a folder that is missing": {
			spoil:   func(t *testing.T, path string) { must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".away")) },
			repair:  func(t *testing.T, path string) { must(t, os.Rename(filepath.Dir(path)+".away", filepath.Dir(path))) },
			clients: 1,
		},
		"a link to itself": {
			spoil: func(t *testing.T, path string) {
				must(t, os.Rename(path, path+".away"))
				must(t, os.Symlink(path, path))
			},
			repair:  func(t *testing.T, path string) { must(t, os.Rename(path+".away", path)) },
			clients: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fill(t)
			c.spoil(t, path)
			h, said := openLogged(t, path)
			said.wantOne(t, "level=ERROR", path)
			if _, err := h.Read(t.Context(), brokerID, finest, epoch, epoch); err == nil {
				t.Error("a file that cannot be opened can be read")
			}
			c.repair(t, path)
			h.wantStored(t, c.clients)
			h.keep(t, 2)
			h.wantStored(t, 2)
		})
	}
}

// TestHistoryContinuesInANewFile takes the file away, or damages it, while it is used.
func TestHistoryContinuesInANewFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		said  string
	}{
		"deleted": {func(t *testing.T, path string) { must(t, os.Remove(path)) }, "was deleted or replaced"},
		"replaced": {func(t *testing.T, path string) {
			must(t, os.Rename(fill(t), path))
		}, "was deleted or replaced"},
		"damaged": {func(t *testing.T, path string) { overwrite(t, path, 0) }, "was moved aside"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fill(t)
			h, said := openLogged(t, path)
			h.wantStored(t, 1)
			c.spoil(t, path)
			h.keep(t, 2)
			h.wantStored(t, 2)
			said.wantOne(t, "level=WARN", c.said)
			again, _ := openLogged(t, path)
			again.wantStored(t, 2)
		})
	}
}

// TestReadMissesNoSample reads while pending samples are written.
func TestReadMissesNoSample(t *testing.T) {
	t.Parallel()
	h, _ := openLogged(t, filepath.Join(t.TempDir(), "history.db"))
	for range 200 {
		must(t, h.Forget(t.Context(), brokerID))
		h.sources[brokerID] = &source{pending: []row{sampled(3)}}
		var writes sync.WaitGroup
		writes.Go(func() { h.write(t.Context()) })
		h.wantStored(t, 3)
		writes.Wait()
	}
}

// TestCloseOfHistoryIsBounded closes a history whose file does not respond.
func TestCloseOfHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), Options{})
	h.mu.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	h.mu.Unlock()
	must(t, h.file.close())
}

// panicking is a broker whose samples cannot be read at first.
type panicking struct {
	fakeBroker
	panics int
}

func (p *panicking) SysHistory(after int64) []broker.SysTopics {
	if p.panics > 0 {
		p.panics--
		panic("deliberate")
	}
	return p.fakeBroker.SysHistory(after)
}

// TestHistorySurvivesAPanic loses no sample when a step panics.
func TestHistorySurvivesAPanic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		h := Open(t.Context(), path, Options{})
		b := &panicking{panics: 2}
		pool := broker.NewPool(func(broker.Target) (broker.Broker, error) { return b, nil })
		_, err := pool.Get(broker.Target{ID: brokerID})
		must(t, err)
		b.sample(7, 0)
		h.Start(pool)
		<-time.After(35 * time.Second)
		s := service{History: h}
		if got := s.series(t, finest, 35*time.Second, clientsOf); got[0] != 7 {
			t.Errorf("got %v, want 7 clients first", got)
		}
		must(t, h.Close(t.Context()))
	})
}

// TestClosedFileStaysClosed reads after Close, of a file that could not be opened, too.
func TestClosedFileStaysClosed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"history.db", filepath.Join("missing", "history.db")} {
		path := filepath.Join(t.TempDir(), name)
		h, _ := openLogged(t, path)
		must(t, h.Close(t.Context()))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if _, err := h.Read(t.Context(), brokerID, finest, epoch, epoch); err == nil {
			t.Errorf("%s: read after Close", name)
		}
	}
}
