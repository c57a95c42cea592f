package router

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// backupExtensions are about the backups in the directory of the service. Restoring is a
// command: it needs the service stopped.
func backupExtensions(h *handlers.API) []route {
	const path, busy = "/api/backups", "One backup is made, verified or deleted at a time (CONFLICT)."
	return []route{
		{ID: "listBackups", Method: "GET", Path: path, Role: auth.Root, Status: 200,
			Summary: "List the backups of the service", Do: query(h.ListBackups),
			Description: "Those in the directory `backup.directory` of the configuration, the newest first; none if that is not set."},
		{ID: "createBackup", Method: "POST", Path: path, Role: auth.Root, Status: 200, Errors: []int{400}, Large: true,
			Summary: "Make a backup of the service", Do: query(h.CreateBackup),
			Description: "Returns when the backup was made and verified, or after 30 seconds with the state creating: listBackups then has " +
				"its outcome. The configuration (`backup`) determines for whom it is encrypted. " + busy},
		{ID: "verifyBackup", Method: "POST", Path: path + "/{backupId}/verify", Role: auth.Root, Status: 200, Errors: []int{400}, Large: true,
			Summary: "Verify a backup", Do: query(h.VerifyBackup),
			Description: "Reads the whole file, checks the databases in it and opens them with this version. Of an encrypted one, which the " +
				"service cannot decrypt, it compares the sum of the file with that of the time at which it was made and verified. Returns " +
				"after 30 seconds at the latest, then with the state verifying. " + busy},
		{ID: "downloadBackup", Method: "GET", Path: path + "/{backupId}/content", Role: auth.Root, Status: 200, Large: true, Audit: auditRead,
			Summary: "Download a backup", Do: query(h.DownloadBackup),
			Description: "The file as it is. One that is not encrypted contains the hashes of passwords and all stored messages.",
			Example:     `"age-encryption.org/v1 ..."`},
		{ID: "deleteBackup", Method: "DELETE", Path: path + "/{backupId}", Role: auth.Root, Status: 204, Errors: []int{400},
			Summary: "Delete a backup", Do: command(h.DeleteBackup), Description: busy},
	}
}

// fileMedia is the media type of a [handlers.File].
const fileMedia = "application/octet-stream"

// fileChunk is how much of a file is sent before the deadline moves.
const fileChunk = 1 << 20

// respondFile sends a file. A browser neither shows it nor guesses its type. A failure aborts
// the connection: a part must not look like the whole.
func (rt *router) respondFile(w http.ResponseWriter, r *http.Request, f handlers.File) error {
	defer f.Content.Close() //nolint:errcheck // it was only read
	h := w.Header()
	h.Set("Content-Type", fileMedia)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	deadline := http.NewResponseController(w)
	for {
		deadline.SetWriteDeadline(time.Now().Add(rt.cfg.WriteTimeout)) //nolint:errcheck // a connection without deadlines needs none
		_, err := io.CopyN(w, f.Content, fileChunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			rt.log.WarnContext(r.Context(), "a download was aborted", "request_id", RequestID(r.Context()), "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}
