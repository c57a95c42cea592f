package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// assets are the files of static, below a directory that is named after the hash of all
// of them: so a browser may keep each for ever, and the imports between modules stay
// relative.
type assets struct {
	hash  string
	files map[string]asset
}

// asset is a file, plain and compressed.
type asset struct {
	plain, gzipped []byte
	contentType    string
}

func loadAssets() (*assets, error) {
	source, err := files()
	if err != nil {
		return nil, err
	}
	a := &assets{files: map[string]asset{}}
	sum := sha256.New()
	err = fs.WalkDir(source, "static", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(source, p)
		if err != nil {
			return err
		}
		if ext := path.Ext(p); ext == ".js" || ext == ".css" {
			b = withoutComments(b)
		}
		sum.Write([]byte(p))
		sum.Write(b)
		a.files[strings.TrimPrefix(p, "static/")] = asset{plain: b, gzipped: compress(b), contentType: contentTypeOf(p)}
		return nil
	})
	a.hash = hex.EncodeToString(sum.Sum(nil))[:12]
	return a, err
}

// withoutComments returns a script or a style sheet without the lines that are comments of a
// script or empty, and without indentation: browsers need none of them.
func withoutComments(source []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(source) {
		line = bytes.TrimLeft(line, "\t")
		if !bytes.HasPrefix(line, []byte("//")) && len(line) > 1 {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// contentTypeOf does not depend on the tables of the operating system for what we have.
func contentTypeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	w.Write(b) //nolint:errcheck // a bytes.Buffer takes everything
	w.Close()  //nolint:errcheck // as above
	return out.Bytes()
}

// serve serves HASH/NAME. With another hash, that of a page of an earlier version, the
// current file is served, and not kept.
func (a *assets) serve(w http.ResponseWriter, r *http.Request, p string) {
	hash, name, _ := strings.Cut(p, "/")
	file, ok := a.files[name]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.contentType)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if hash == a.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body := file.plain
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = file.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		io.Copy(w, bytes.NewReader(body)) //nolint:errcheck // a disconnected browser needs no response
	}
}

// acceptsGzip reports whether the browser takes gzip [RFC 9110, 12.5.3].
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(coding, "gzip") {
			return !strings.HasPrefix(strings.ReplaceAll(weight, " ", ""), "q=0") || strings.ContainsAny(weight, "123456789")
		}
	}
	return false
}
