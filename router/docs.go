package router

import (
	"io/fs"
	"net/http"

	"github.com/vearutop/statigz"

	"signalbox/handlers"
	"signalbox/router/site"
	"signalbox/router/swaggerui"
)

const (
	openAPIPath = "/api/openapi.json"
	docsPath    = "/api/docs"
	schemaPath  = "/api/site.schema.json"
	manualPath  = "/docs"
)

// docsPolicy lets the documentation page load its parts from this service only. Its
// library sets style attributes.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsPage is a page of our own: the library's page needs inline scripts.
const docsPage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>signalbox API</title>
<link rel="stylesheet" href="` + docsPath + `/swagger-ui.css">
<link rel="icon" type="image/png" href="` + docsPath + `/favicon-32x32.png">
</head>
<body>
<noscript>This page needs JavaScript; the document itself is at <a href="` + openAPIPath + `">` + openAPIPath + `</a>.</noscript>
<div id="docs"></div>
<script src="` + docsPath + `/swagger-ui-bundle.js"></script>
<script src="` + docsPath + `/` + docsScriptName + `"></script>
</body>
</html>
`

const (
	docsScriptName = "start.js"
	docsScript     = `// searchText is what the search looks through: an operation with its parameters and the names of its schemas.
function searchText(tag, op) {
	var operation = op.get("operation");
	var words = [tag, op.get("method"), op.get("path"), operation.get("operationId"), operation.get("summary"), operation.get("description")];
	(operation.get("parameters") || []).forEach(function (p) { words.push(p.get("name"), p.get("description")); });
	JSON.stringify([operation.get("requestBody"), operation.get("responses")]).replace(/"#\/components\/schemas\/(\w+)"/g, function (_, name) {
		words.push(name);
	});
	return words.join(" ").toLowerCase();
}

// search shows the operations that contain every word; that of the library looks at tags only.
function search() {
	return {
		fn: {
			opsFilter: function (groups, phrase) {
				var words = phrase.toLowerCase().split(/\s+/);
				return groups.map(function (group, tag) {
					return group.set("operations", group.get("operations").filter(function (op) {
						var text = searchText(tag, op);
						return words.every(function (word) { return text.indexOf(word) >= 0; });
					}));
				}).filter(function (group) { return group.get("operations").size > 0; });
			}
		}
	};
}

window.onload = function () {
	SwaggerUIBundle({
		url: "` + openAPIPath + `",
		dom_id: "#docs",
		deepLinking: true,
		docExpansion: "list",
		filter: true,
		plugins: [search],
		showExtensions: true,
		defaultModelsExpandDepth: 0,
		validatorUrl: null
	});
};
`
)

// serveSiteSchema serves the JSON Schema of files of declared state.
func serveSiteSchema(w http.ResponseWriter, _ *http.Request) {
	writeBody(w, http.StatusOK, "application/json", site.Schema)
}

// serveDocs serves the documentation page.
func serveDocs(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", docsPolicy)
	writeBody(w, http.StatusOK, "text/html; charset=utf-8", []byte(docsPage))
}

// docsAssets serves the parts of the page from the embedded files of the library, compressed
// if the caller accepts that.
func docsAssets() http.Handler {
	library := http.StripPrefix(docsPath, statigz.FileServer(swaggerui.Files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[len(docsPath)+1:]
		w.Header().Set("Cache-Control", "no-cache")
		switch {
		case name == docsScriptName:
			writeBody(w, http.StatusOK, "text/javascript; charset=utf-8", []byte(docsScript))
		case isAsset(name):
			library.ServeHTTP(w, r)
		default:
			writeError(w, &handlers.Error{Status: http.StatusNotFound, Code: handlers.CodeNotFound,
				Message: "the documentation page has no such part"})
		}
	})
}

// isAsset reports whether the library has the file, plain or compressed.
func isAsset(name string) bool {
	for _, n := range []string{name, name + ".gz"} {
		if f, err := fs.Stat(swaggerui.Files, n); err == nil && !f.IsDir() {
			return true
		}
	}
	return false
}

// serveManualPage serves a page of the manual, or its style sheet.
func (rt *router) serveManualPage(w http.ResponseWriter, r *http.Request) {
	if !rt.manual.Serve(w, r.URL.Path[len(manualPath)+1:], ".."+manualPath) {
		writeError(w, &handlers.Error{Status: http.StatusNotFound, Code: handlers.CodeNotFound,
			Message: "the manual has no such page; /docs lists them"})
	}
}
