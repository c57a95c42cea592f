package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// functions are what templates may call, for a language and the depth of a page.
func (c *Console) functions(l *locale, root string) template.FuncMap {
	return template.FuncMap{
		"t":     l.text,
		"api":   l.api,
		"num":   l.number,
		"count": l.count,
		"rate":  l.rate,
		"bytes": l.bytes,
		"time":  func(at any) (template.HTML, error) { return l.time(at, time.Now()) },
		"show":  show,
		"lines": showLines,
		"root":  func() string { return root },
		"asset": func(name string) string { return root + "/static/" + c.assets.hash + "/" + name },
		"icon":  func(name string) template.HTML { return c.icon(root, name) },
		"nav":   func(e navEntry) template.HTML { return e.html(c.icon(root, e.Icon)) },
		"state": stateMark,
		"named": func(link, name string) template.HTML { return named("", link, name) },
		"tags":  tags,
		"check": func(s selection, name string) template.HTML {
			return s.checkbox(name, l.text("sessions.select", show(name)))
		},
		"dict": dict,
	}
}

// api returns a sentence of the API in the language, otherwise marked as English.
func (l *locale) api(english string) template.HTML {
	text, ok := l.sentence(english)
	text = template.HTMLEscapeString(show(text))
	if !ok && text != "" {
		text = `<span lang="en">` + text + `</span>`
	}
	return template.HTML(text) //nolint:gosec // escaped
}

// stateMark returns a state as icon and text. Tables have it once for all their rows.
func stateMark(kind string, icon template.HTML, text string) template.HTML {
	return template.HTML(`<span class="state `+template.HTMLEscapeString(kind)+`">`) + icon + //nolint:gosec // escaped
		template.HTML(template.HTMLEscapeString(text)+`</span>`) //nolint:gosec // escaped
}

// named returns a link to the page of an object that users have named: the name completes
// the query of the link, and is its text. In a table it takes a quarter of the time of the
// same in a template, which calls a function for each context of each value.
func named(class, link, name string) template.HTML {
	return template.HTML(`<a` + class + ` href="` + template.HTMLEscapeString(link+url.QueryEscape(name)) + `">` + //nolint:gosec // escaped
		template.HTMLEscapeString(show(name)) + `</a>`)
}

// tags returns links to the pages of the roles or groups of an object, as named does.
func tags(link string, of any) (template.HTML, error) {
	var b strings.Builder
	add := func(name string) { b.WriteString(string(named(` class="tag"`, link, name)) + " ") }
	switch list := of.(type) {
	case []roleRef:
		for _, r := range list {
			add(r.Name)
		}
	case []groupRef:
		for _, g := range list {
			add(g.Name)
		}
	default:
		return "", fmt.Errorf("tags: %T has no names", of)
	}
	return template.HTML(cmp.Or(b.String(), "–")), nil //nolint:gosec // escaped
}

// icon returns an icon, which only repeats the text beside it.
func (c *Console) icon(root, name string) template.HTML {
	return template.HTML(`<svg class="icon" aria-hidden="true" focusable="false"><use href="` + //nolint:gosec // names from our templates
		template.HTMLEscapeString(root+"/static/"+c.assets.hash+"/icons.svg#"+name) + `"></use></svg>`)
}

// dict returns a map for a template that needs several values: "name", value, …
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict has an odd number of arguments")
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: the name %v is not a string", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// show returns text of users as it is shown: control characters, and those that change
// the direction of text, become visible marks.
func show(s string) string {
	if strings.IndexFunc(s, isInvisible) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x20:
			b.WriteRune(0x2400 + r) // its control picture
		case r == 0x7f:
			b.WriteRune(0x2421)
		case isInvisible(r):
			fmt.Fprintf(&b, "\u27e8U+%04X\u27e9", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// showLines is show for a text of several lines.
func showLines(s string) string {
	shown := make([]string, 0, strings.Count(s, "\n")+1)
	for line := range strings.SplitSeq(s, "\n") {
		parts := strings.Split(line, "\t")
		for i := range parts {
			parts[i] = show(parts[i])
		}
		shown = append(shown, strings.Join(parts, "\t"))
	}
	return strings.Join(shown, "\n")
}

func isInvisible(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == unicode.ReplacementChar
}

// bytes returns a size in binary units, with one decimal below 10.
func (l *locale) bytes(n int64) string {
	size, unit := float64(n), 0
	for size >= 1024 && unit < len(byteUnits)-1 {
		size, unit = size/1024, unit+1
	}
	switch {
	case unit == 0 || size >= 10:
		return l.printer.Sprintf("%.0f %s", size, byteUnits[unit])
	default:
		return l.printer.Sprintf("%.1f %s", size, byteUnits[unit])
	}
}

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// time returns a time element: relative to now, with the absolute time in its title. at
// is a time in epoch milliseconds, or in RFC 3339.
func (l *locale) time(at any, now time.Time) (template.HTML, error) {
	var t time.Time
	switch v := at.(type) {
	case int64:
		t = time.UnixMilli(v)
	case string:
		parsed, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return template.HTML(template.HTMLEscapeString(show(v))), nil //nolint:gosec // escaped
		}
		t = parsed
	case time.Time:
		t = v
	default:
		return "", fmt.Errorf("%T is not a time", at)
	}
	if t.IsZero() || t.UnixMilli() == 0 {
		return template.HTML(template.HTMLEscapeString(l.text("time.never"))), nil //nolint:gosec // escaped
	}
	clock := clockAt(t.UnixMilli())
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, clock.At, clock.Text, //nolint:gosec // escaped
		template.HTMLEscapeString(l.relative(now.Sub(t))))), nil
}

// relative returns a duration before or after now: "3 minutes ago", "in 2 hours".
func (l *locale) relative(d time.Duration) string {
	direction := "ago"
	if d < 0 {
		direction, d = "in", -d
	}
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"days", 24 * time.Hour}, {"hours", time.Hour}, {"minutes", time.Minute}} {
		if d >= u.size {
			return l.text("time."+direction+"."+u.name, int(d/u.size))
		}
	}
	if d < 5*time.Second { // also by the clock of a broker that is a little ahead
		return l.text("time.now")
	}
	return l.text("time."+direction+".seconds", int(d/time.Second))
}
