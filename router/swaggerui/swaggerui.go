// Package swaggerui has the files of Swagger UI that the documentation page of the API uses, as they are in the module
// github.com/swaggest/swgui. Its own package with them has other files, too, which would make the program 160 KB larger.
//
// It must not import any other package of this module.
package swaggerui

import "embed"

// Version is the version of Swagger UI.
const Version = "5.29.0"

// Files has the files, of which scripts and style sheets are compressed with gzip.
//
//go:embed *.gz *.png
var Files embed.FS
