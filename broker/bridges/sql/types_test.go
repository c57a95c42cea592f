package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/peertest"
)

// cell is a value for a column in a table of its own.
type cell struct {
	typ     string
	source  string // jsonPayload.v if empty
	payload string // the value of v, or the whole payload if there is a source
	want    string // as text; "!" and a part of the reason if it is rejected
}

// postgresCells are the conversions of PostgreSQL.
var postgresCells = []cell{
	{typ: "INTEGER", payload: `21`, want: "21"},
	{typ: "INTEGER", payload: `21.0`, want: "21"},
	{typ: "INTEGER", payload: `" 21 "`, want: "21"},
	{typ: "INTEGER", payload: `true`, want: "1"},
	{typ: "INTEGER", payload: `null`, want: "NULL"},
	{typ: "INTEGER", payload: `21.5`, want: `!"21.5"`},
	{typ: "INTEGER", payload: `{"a":1}`, want: "!integer"},
	{typ: "SMALLINT", payload: `70000`, want: "!out of range"},
	{typ: "BIGINT", payload: `9007199254740993`, want: "9007199254740993"},
	{typ: "BIGINT", payload: `-9223372036854775808`, want: "-9223372036854775808"},
	{typ: "NUMERIC(8,2)", payload: `21.255`, want: "21.26"},
	{typ: "NUMERIC", payload: `"0.12345678901234567890123"`, want: "0.12345678901234567890123"},
	{typ: "DOUBLE PRECISION", payload: `1e300`, want: "1e+300"},
	{typ: "DOUBLE PRECISION", payload: `0.1`, want: "0.1"},
	{typ: "DOUBLE PRECISION", payload: `"warm"`, want: "!double precision"},
	{typ: "REAL", payload: `21.5`, want: "21.5"},
	{typ: "DOUBLE PRECISION", source: "payload", payload: "21.5\n", want: "21.5"},
	{typ: "BOOLEAN", payload: `true`, want: "true"},
	{typ: "BOOLEAN", payload: `0`, want: "false"},
	{typ: "BOOLEAN", payload: `"on"`, want: "true"},
	{typ: "BOOLEAN", payload: `7`, want: "!boolean"},
	{typ: "TEXT", payload: `21.5`, want: "21.5"},
	{typ: "TEXT", payload: `{"b": 1, "a": [2]}`, want: `{"b": 1, "a": [2]}`},
	{typ: "TEXT", source: "payload", payload: "", want: ""},
	{typ: "TEXT", source: "payload", payload: "\xff", want: "!encoding"},
	{typ: "TEXT", source: "payload", payload: "a\x00b", want: "!encoding"},
	{typ: "VARCHAR(3)", payload: `"abcd"`, want: "!too long"},
	{typ: "CHAR(3)", payload: `"abcd"`, want: "!too long"},
	{typ: "CHAR(3)", payload: `"ab"`, want: "ab "},
	{typ: "BYTEA", source: "payload", payload: "\x00\xff\\'", want: "\x00\xff\\'"},
	{typ: "BYTEA", payload: `"text"`, want: "text"},
	{typ: "JSONB", payload: `{"b": 1, "a": [2]}`, want: `{"a": [2], "b": 1}`},
	{typ: "JSON", payload: `"word"`, want: `"word"`},
	{typ: "JSONB", source: "payload", payload: `[1]`, want: "[1]"},
	{typ: "JSONB", source: "payload", payload: `word`, want: "!json"},
	{typ: "JSONB", source: "timestamp", want: `"2023-11-14T22:13:20.123Z"`},
	{typ: "TIMESTAMPTZ", source: "timestamp", want: "2023-11-14T22:13:20.123Z"},
	{typ: "TIMESTAMP", source: "timestamp", want: "2023-11-14T22:13:20.123Z"},
	{typ: "TIMESTAMP", payload: `"2024-01-02T03:04:05+02:00"`, want: "2024-01-02T01:04:05Z"},
	{typ: "TIMESTAMPTZ", payload: `"2024-01-02 03:04"`, want: "2024-01-02T03:04:00Z"},
	{typ: "TIMESTAMPTZ", payload: `1700000000123`, want: "2023-11-14T22:13:20.123Z"},
	{typ: "TIMESTAMPTZ", payload: `"soon"`, want: "!timestamp"},
	{typ: "DATE", source: "timestamp", want: "2023-11-14T00:00:00Z"},
	{typ: "BIGINT", source: "timestamp", want: "1700000000123"},
	{typ: "UUID", payload: `"6F9619FF-8B86-D011-B42D-00C04FC964FF"`, want: "6f9619ff-8b86-d011-b42d-00c04fc964ff"},
	{typ: "INET", payload: `"10.0.0.1"`, want: "10.0.0.1"},
	{typ: "mood", payload: `"glad"`, want: "glad"},
	{typ: "mood", payload: `"odd"`, want: "!enum mood"},
	{typ: "percent", payload: `50`, want: "50"},
	{typ: "percent", payload: `500`, want: "!percent"},
	{typ: "INTEGER[]", payload: `[1,[2]]`, want: "!"},
	{typ: "INTEGER[]", payload: `[[1,2],[3,null]]`, want: "{{1,2},{3,NULL}}"},
	{typ: "TEXT[]", payload: `["a\"b","c\\d",true,1.50,{"x":1}]`, want: `{"a\"b","c\\d",true,1.50,"{\"x\":1}"}`},
	{typ: "TEXT[]", payload: `"{a,b}"`, want: "{a,b}"},
	{typ: "INTERVAL", payload: `"1 hour"`, want: "01:00:00"},
}

// mariaDBCells are the conversions of MariaDB.
var mariaDBCells = []cell{
	{typ: "INT", payload: `21`, want: "21"},
	{typ: "INT", payload: `"21"`, want: "21"},
	{typ: "INT", payload: `true`, want: "1"},
	{typ: "INT", payload: `null`, want: "NULL"},
	{typ: "INT", payload: `21.5`, want: `!"21.5"`},
	{typ: "INT", payload: `"warm"`, want: `!"warm"`},
	{typ: "SMALLINT", payload: `70000`, want: "!out of range"},
	{typ: "BIGINT UNSIGNED", payload: `"18446744073709551615"`, want: "18446744073709551615"},
	{typ: "BIGINT", payload: `9007199254740993`, want: "9007199254740993"},
	{typ: "TINYINT(1)", payload: `true`, want: "1"},
	{typ: "TINYINT(1)", payload: `"false"`, want: "0"},
	{typ: "TINYINT(1)", payload: `5`, want: "5"},
	{typ: "TINYINT(1)", payload: `5.5`, want: `!"5.5"`},
	{typ: "BIT(8)", payload: `65`, want: "A"},
	{typ: "BIT(1)", payload: `2`, want: "!too long"},
	{typ: "DECIMAL(8,2)", payload: `21.25`, want: "21.25"},
	{typ: "DECIMAL(30,25)", payload: `"0.1234567890123456789012345"`, want: "0.1234567890123456789012345"},
	{typ: "DOUBLE", payload: `0.1`, want: "0.1"},
	{typ: "DOUBLE", payload: `1e300`, want: "1e+300"},
	{typ: "DOUBLE", payload: `"warm"`, want: "!double"},
	{typ: "DOUBLE", source: "payload", payload: "21.5\n", want: "21.5"},
	{typ: "TEXT", payload: `{"b": 1}`, want: `{"b": 1}`},
	{typ: "TEXT", source: "payload", payload: "☃ 🙂", want: "☃ 🙂"},
	{typ: "TEXT", source: "payload", payload: "\xff", want: "!incorrect string value"},
	{typ: "VARCHAR(3)", payload: `"abcd"`, want: "!too long"},
	{typ: "BLOB", source: "payload", payload: "\x00\xff\\'", want: "\x00\xff\\'"},
	{typ: "JSON", payload: `{"b": 1}`, want: `{"b": 1}`},
	{typ: "JSON", source: "payload", payload: `word`, want: "!constraint"},
	{typ: "DATETIME(3)", source: "timestamp", want: "2023-11-14 22:13:20.123"},
	{typ: "TIMESTAMP(3)", source: "timestamp", want: "2023-11-14 22:13:20.123"},
	{typ: "DATETIME", payload: `"2024-01-02T03:04:05+02:00"`, want: "2024-01-02 01:04:05"},
	{typ: "DATETIME", payload: `"2024-01-02 03:04"`, want: "2024-01-02 03:04:00"},
	{typ: "DATETIME", payload: `"soon"`, want: "!incorrect datetime"},
	{typ: "DATE", source: "timestamp", want: "2023-11-14"},
	{typ: "ENUM('glad','sad')", payload: `"glad"`, want: "glad"},
	{typ: "ENUM('glad','sad')", payload: `"odd"`, want: "!truncated"},
	{typ: "UUID", payload: `"6F9619FF-8B86-D011-B42D-00C04FC964FF"`, want: "6f9619ff-8b86-d011-b42d-00c04fc964ff"},
}

// testTypes inserts values into columns of every type.
func testTypes(t *testing.T, d *peertest.Database) {
	cells := mariaDBCells
	if d.Driver == "postgresql" {
		cells = postgresCells
		d.Exec(t, "CREATE TYPE mood AS ENUM ('glad', 'sad')")
		d.Exec(t, "CREATE DOMAIN percent AS INTEGER CHECK (VALUE <= 100)")
	}
	r := newRig(t, d)
	batch := make([]*bridges.Entry, len(cells))
	for i, c := range cells {
		name := fmt.Sprintf("cell%d", i)
		d.Exec(t, "CREATE TABLE "+name+" (v "+c.typ+" NULL)")
		source, payload := c.source, c.payload
		if source == "" {
			source, payload = "jsonPayload.v", `{"v":`+c.payload+`}`
		}
		r.into(name, name, "", source, "v")
		batch[i] = r.entry(name, payload)
	}
	results := deliver(t, r.connected(), batch)
	for i, c := range cells {
		checkCell(t, d, c, i, results[i])
	}
}

func checkCell(t *testing.T, d *peertest.Database, c cell, i int, got bridges.Result) {
	t.Helper()
	what := fmt.Sprintf("%s %s as %s", c.source, c.payload, c.typ)
	if reason, refused := strings.CutPrefix(c.want, "!"); refused {
		if got.State != bridges.Rejected || !strings.Contains(strings.ToLower(fullReason(got)), strings.ToLower(reason)) {
			t.Errorf("%s: got %+v, want a reason with %q", what, got, reason)
		}
		return
	}
	if got.State != bridges.Delivered {
		t.Errorf("%s: got %+v, want it delivered", what, got)
		return
	}
	if diff := cmp.Diff([]string{c.want}, d.Column(t, fmt.Sprintf("SELECT v FROM cell%d", i))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
