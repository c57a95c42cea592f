package records

import "testing"

// TestReader reads what was appended, and zeros after the end.
func TestReader(t *testing.T) {
	t.Parallel()
	record := AppendBytes(AppendBytes(nil, "text"), []byte("more"))
	record = append(record, 7, 1, 0xac, 0x02, 0x03, 0, 0, 0, 0, 0, 0, 1, 2, 2, 'x', 'y')
	r := Reader{Rest: record}
	text := r.Bytes()
	_ = append(text, '-') // copies it
	if string(text) != "text" || r.Text() != "more" || r.Byte() != 7 || !r.Bool() || r.Number() != 300 || r.Signed() != -2 ||
		r.Uint64() != 258 || r.Count(1) != 2 || string(r.Take(2)) != "xy" || !r.Done() {
		t.Errorf("read %q and then something else than was written: %+v", text, r)
	}
	for name, read := range map[string]func() bool{
		"Byte": func() bool { return r.Byte() == 0 }, "Bool": func() bool { return !r.Bool() }, "Number": func() bool { return r.Number() == 0 },
		"Signed": func() bool { return r.Signed() == 0 }, "Bytes": func() bool { return r.Bytes() == nil }, "Uint64": func() bool { return r.Uint64() == 0 },
		"Take": func() bool { return r.Take(1) == nil }, "Count": func() bool { return r.Count(1) == 0 },
	} {
		if r.Broken = false; !read() || !r.Broken || r.Done() {
			t.Errorf("%s read beyond the end", name)
		}
	}
}

// TestReaderRefuses reads what no writer has written.
func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record []byte
		read   func(*Reader)
	}{
		"a length beyond the end":    {[]byte{3, 'a', 'b'}, func(r *Reader) { r.Bytes() }},
		"a count beyond the end":     {[]byte{2, 'a', 'b', 'c'}, func(r *Reader) { r.Count(2) }},
		"a number above its limit":   {[]byte{8}, func(r *Reader) { r.NumberUpTo(7) }},
		"a boolean of 2":             {[]byte{2}, func(r *Reader) { r.Bool() }},
		"a number that does not end": {[]byte{0xff, 0xff}, func(r *Reader) { r.Number() }},
		"a number of 70 bits":        {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, func(r *Reader) { r.Signed() }},
		"less than nothing":          {[]byte{1}, func(r *Reader) { r.Take(-1) }},
	} {
		r := Reader{Rest: c.record}
		c.read(&r)
		if !r.Broken || len(r.Rest) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
