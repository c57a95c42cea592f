package console_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// operator counts what a user does with a pointer and a keyboard.
type operator struct {
	*browsertest.Page
	clicks, fields int
}

// click clicks on an element and waits until another one is shown and the page has loaded.
func (o *operator) click(selector, shown string) {
	o.Click(selector)
	o.clicks++
	o.WaitFor(fmt.Sprintf("document.readyState === 'complete' && document.querySelector(%q)?.checkVisibility()", shown))
}

func (o *operator) fill(selector, text string) {
	o.Fill(selector, text)
	o.fields++
}

// The most that an operator should have to do from the first start of a service to the reason
// why a device may publish and another one may not.
const (
	mostClicks = 11
	mostFields = 10
)

// TestOperator signs in for the first time, lets pump-7 publish and not pump-8, and sees why.
func TestOperator(t *testing.T) {
	t.Parallel()
	o := &operator{Page: browsertest.Open(t, apitest.New(t).URL)}
	o.fill("#f-email", apitest.RootEmail)
	o.fill("#f-password", apitest.RootPassword)
	o.click("main form .primary", "#steps")

	o.click("#steps a[href$='/roles/new']", "#f-rolename")
	o.fill("#f-rolename", "pump")
	o.fill("[name='new/topic']", "plant/7/#")
	o.click(".actions button.primary[value=save]", ".message.good")

	o.click("main a[href$='/clients/new?rolename=pump']", "#dialog [name=username]")
	o.fill("#dialog [name=username]", "pump-7")
	o.fill("#dialog [name=password]", secret)
	o.click("#dialog form .primary", "#rights")
	o.click("nav.side a[href$='/clients']", "main .heading a[href$='/clients/new']")
	o.click("main .heading a[href$='/clients/new']", "#dialog [name=username]")
	o.fill("#dialog [name=username]", "pump-8")
	o.fill("#dialog [name=password]", secret)
	o.click("#dialog form .primary", "#rights")
	o.click("main a[href*='/check?username=pump-8']", "#f-topic")
	o.fill("#f-topic", "plant/7/pressure")
	o.click("main form .primary", "#verdict ~ .message.bad")
	if got := o.Text("tr.current"); !strings.Contains(got, "Default access") {
		t.Errorf("pump-8 may not publish because of %q", got)
	}
	o.fill("#f-username", "pump-7")
	o.click("main form .primary", "#verdict ~ .message.good")
	if got := o.Text("tr.current"); !strings.Contains(got, "plant/7/#") || !strings.Contains(got, "pump") {
		t.Errorf("pump-7 may publish because of %q", got)
	}
	t.Logf("%d clicks and %d fields", o.clicks, o.fields)
	if o.clicks > mostClicks || o.fields > mostFields {
		t.Errorf("%d clicks and %d fields, at most %d and %d are allowed", o.clicks, o.fields, mostClicks, mostFields)
	}
}
