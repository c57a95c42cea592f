package console_test

import (
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// TestAccount changes the own name, which the menu then shows, and ends another session and then all
// others, with and without scripts.
func TestAccount(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			other := api.LogIn(apitest.RootEmail, apitest.RootPassword)
			p := signIn(t, api.URL+"/ui/account", options...)
			const table = "[aria-labelledby=sessions] table"
			if sessions := p.Text(table); !strings.Contains(sessions, "Chrome, Linux") || strings.Count(sessions, "Go-http-client/1.1\t") != 2 {
				t.Errorf("sessions: %s", sessions)
			}
			done := func(message, shown string) {
				t.Helper()
				p.WaitFor(`document.readyState === "complete" && location.pathname === "/ui/account" && document.querySelector("#messages .good")?.innerText.includes("` + message + `") && ` + shown)
			}
			p.Fill("#f-name-lastname", "Lovelace")
			p.Click("[aria-labelledby=who] form .primary")
			done("Your name was saved", `document.querySelector("[popovertarget=user-menu]").innerText.includes("Lovelace")`)

			rows := func(n string) string { return `document.querySelectorAll("` + table + ` tbody tr").length === ` + n }
			answer := "main form .danger"
			if options == nil {
				answer = "#dialog form .danger"
			}
			p.Click(table + " tbody tr:nth-child(2) .row-actions a")
			p.WaitFor(`document.querySelector("` + answer + `")`)
			p.Click(answer)
			done("The session was ended", rows("2"))
			other.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
			api.Root.Get("/api/auth/me").Want(200)

			p.Click("[aria-labelledby=sessions] header a")
			p.WaitFor(`document.querySelector("` + answer + `")`)
			p.Click(answer)
			done("Your other sessions were ended", rows("1"))
			api.Root.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
			if n := p.Count(table + " a, [aria-labelledby=sessions] header a"); n > 0 {
				t.Errorf("the session of the browser can be ended: %s", p.Text("[aria-labelledby=sessions]"))
			}
		})
	}
}
