package browsertest

import "github.com/chromedp/chromedp"

// Act is act.
func (p *Page) Act(actions ...chromedp.Action) {
	p.t.Helper()
	p.act(actions...)
}

// Pid returns the number of the running browser's process.
func Pid() int {
	mu.Lock()
	defer mu.Unlock()
	return running.process.Pid()
}
