// Package browsertest opens pages in a real browser for tests. A page that is opened
// with it fails its test for every error in the console, every exception, every failed
// request and every report of a Content-Security-Policy; on request also for what
// axe-core finds, for sideways scrolling and for elements that the keyboard cannot use.
//
// Without Chromium or axe-core the tests are skipped, in CI they fail; scripts/install
// installs both. It is imported by tests only, and those of a package must be run by
// Main, or else call Stop at the end.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// Main runs the tests of a package and ends the process, as TestMain does. It ends the
// browser that they started.
func Main(m *testing.M) { suite.Main(m, Stop) }

// browser is one process of Chromium, which all tests of a test process share: each has
// a tab with cookies and a cache of its own.
type browser struct {
	ctx     context.Context // of the connection; tabs are made from it
	cancel  context.CancelFunc
	process *process.Process
	profile string // directory
}

var (
	mu      sync.Mutex // guards the variables below
	running *browser   // nil before the first test that needs it
	failed  error      // why it could not be started
)

// headlessShell is Chromium without windows, with the same engine, as Debian's package of that name has it: a page takes
// a third to a half less processor time in it. The one in PATH is a script that does not pass signals on.
const headlessShell = "/usr/lib/chromium/chromium-headless-shell"

// executable returns the path of Chromium.
func executable(t testing.TB) string {
	t.Helper()
	for _, name := range []string{headlessShell, "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	process.Missing(t, "chromium is not installed (apt-get install chromium-headless-shell, or scripts/install)")
	return ""
}

// start returns the context of the running browser, which it starts if none runs.
func start(t testing.TB) context.Context {
	t.Helper()
	path := executable(t)
	mu.Lock()
	defer mu.Unlock()
	if running == nil && failed == nil {
		running, failed = launch(path)
	}
	if failed != nil {
		t.Fatal("start the browser: ", failed)
	}
	return running.ctx
}

// flags start Chromium without a display, without its sandbox, which refuses root, and
// without requests of its own. Tabs in the background run as those in front do.
var flags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
	"--no-first-run", "--no-default-browser-check", "--disable-quic", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-breakpad", "--no-pings",
	"--disable-domain-reliability", "--disable-client-side-phishing-detection", "--disable-default-apps",
	"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,HttpsUpgrades",
	"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
	"--password-store=basic", "--use-mock-keychain", "--lang=en-US", "--remote-debugging-port=0",
}

func launch(path string) (b *browser, err error) {
	b = &browser{}
	if b.profile, err = os.MkdirTemp("", "signalbox-browser"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	address := make(chan string, 1)
	cmd := exec.Command(path, append(flags, "--user-data-dir="+b.profile, "about:blank")...) //nolint:gosec // Chromium
	b.process, err = process.Start(cmd, func(line string) bool {
		url, found := strings.CutPrefix(line, "DevTools listening on ")
		if found {
			address <- url
		}
		return found
	})
	if err != nil {
		return b, err
	}
	if err := b.process.AwaitReady(context.Background()); err != nil {
		return b, err
	}
	return b, b.connect(<-address)
}

// connect connects to the browser's debugging port.
func (b *browser) connect(address string) error {
	allocator, cancel := chromedp.NewRemoteAllocator(context.Background(), address, chromedp.NoModifyURL)
	b.cancel = cancel
	// chromedp reports events that it does not know as errors, which they are not.
	b.ctx, _ = chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}),
		chromedp.WithBrowserOption(chromedp.WithDialTimeout(suite.HangLimit)))
	return firstRun(b.ctx, cancel)
}

// firstRun makes the tab of a new context. It takes no context with a deadline, because
// the tab lives as long as the context of its first run.
func firstRun(ctx context.Context, cancel context.CancelFunc) error {
	late := time.AfterFunc(suite.HangLimit, cancel)
	defer late.Stop()
	return chromedp.Run(ctx)
}

// Stop ends the browser if it runs.
func Stop() error {
	mu.Lock()
	defer mu.Unlock()
	if running == nil {
		return nil
	}
	b := running
	running = nil
	return b.stop()
}

func (b *browser) stop() (err error) {
	if b.cancel != nil {
		b.cancel()
	}
	if b.process != nil {
		if err = b.process.End(syscall.SIGTERM); err != nil {
			err = fmt.Errorf("end the browser: %w", err)
		}
	}
	return errors.Join(err, os.RemoveAll(b.profile))
}
