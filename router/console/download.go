package console

import (
	"mime"
	"net/http"
	"strconv"
)

// errDownload ends a page: the browser saves a file instead.
type errDownload struct {
	name    string
	content []byte
}

// Error names the file.
func (e errDownload) Error() string { return "download of " + e.name }

// send sends a file. A browser neither shows it nor guesses its type: the content is
// chosen by others.
func (q *request) send(file errDownload) {
	h := q.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file.name}))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(file.content)))
	if q.http.Method != http.MethodHead {
		q.w.Write(file.content) //nolint:errcheck // a disconnected browser needs no response
	}
}
