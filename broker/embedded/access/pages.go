package access

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"signalbox/broker/storage"
)

// table is a table without rowids, whose rows are read in the order of their primary key from the pages of the
// file. To let SQLite return the rows takes four times the processor time. The format of the pages is fixed
// (https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1); SQLite finds them, in the file or the WAL.
type table struct {
	name    string
	columns []string // all of them, in the order in which they are stored: those of the primary key are the first
	key     int      // how many columns the primary key has; they are texts
}

// maxDepth bounds the depth of a tree of pages. With two children a page, it would have more rows than a file can.
const maxDepth = 32

// errPage is the error of a page that is not as it must be.
var errPage = fmt.Errorf("a page is not what its format requires: %w", storage.ErrDamaged)

// pageReader reads the pages of one table.
type pageReader struct {
	ctx    context.Context //nolint:containedctx // lives for one call of rows
	tx     *sql.Tx
	fetch  []*sql.Stmt // by depth, since pages are read while those above them are
	usable int         // bytes of a page
}

// rows yields the columns of each row. They are valid until the next one.
func (t table) rows(l *loader) iter.Seq[[]column] {
	return func(yield func([]column) bool) {
		if l.err != nil {
			return
		}
		if err := t.read(l, yield); err != nil && !errors.Is(err, errEnough) {
			l.err = fmt.Errorf("read %s: %w", t.name, err)
		}
	}
}

// errEnough ends the reading of a table.
var errEnough = errors.New("enough")

func (t table) read(l *loader, yield func([]column) bool) error {
	root, err := t.root(l)
	if err != nil {
		return err
	}
	p := &pageReader{ctx: l.ctx, tx: l.tx}
	defer p.close()
	if err := p.each(0, []uint32{1}, p.header); err != nil {
		return err
	}
	row, last := make([]column, len(t.columns)), make([][]byte, t.key)
	return p.tree(1, []uint32{root}, nil, func(record []byte) error {
		if err := decodeRecord(record, row); err != nil {
			return err
		}
		if !follows(row, last) {
			return fmt.Errorf("its rows are not in order: %w", errPage)
		}
		if !yield(row) {
			return errEnough
		}
		return nil
	})
}

// root returns the number of the page at which the table begins, if it has the columns.
func (t table) root(l *loader) (number uint32, err error) {
	const q = `
		SELECT rootpage, (SELECT group_concat(name ORDER BY cid) FROM pragma_table_info(?1))
		FROM sqlite_schema WHERE type = 'table' AND name = ?1`
	var columns string
	if err := l.tx.QueryRowContext(l.ctx, q, t.name).Scan(&number, &columns); err != nil {
		return 0, err
	}
	if want := strings.Join(t.columns, ","); columns != want {
		return 0, fmt.Errorf("it has the columns %s, want %s", columns, want)
	}
	return number, nil
}

// follows reports whether the key of a row is after the last one, which it replaces.
func follows(row []column, last [][]byte) bool {
	order, first := 0, last[0] == nil
	for i := range last {
		if order == 0 {
			order = bytes.Compare(row[i].text, last[i])
		}
		last[i] = append(last[i][:0], row[i].text...)
	}
	return first || order > 0
}

// header reads what the first page has of the format.
func (p *pageReader) header(page []byte) error {
	const reserved, encoding, utf8 = 20, 56, 1
	if len(page) < 512 || binary.BigEndian.Uint32(page[encoding:]) != utf8 {
		return errPage
	}
	if p.usable = len(page) - int(page[reserved]); p.usable < 480 {
		return errPage
	}
	return nil
}

// pages returns the statement that returns the pages of a JSON array of numbers, in its order.
func (p *pageReader) pages(depth int) (*sql.Stmt, error) {
	const q = `SELECT p.data FROM json_each(?) AS n CROSS JOIN sqlite_dbpage AS p ON p.pgno = n.value`
	for len(p.fetch) <= depth {
		fetch, err := p.tx.PrepareContext(p.ctx, q)
		if err != nil {
			return nil, err
		}
		p.fetch = append(p.fetch, fetch)
	}
	return p.fetch[depth], nil
}

func (p *pageReader) close() {
	for _, fetch := range p.fetch {
		fetch.Close() //nolint:errcheck // read only
	}
}

// pageBytes is a page as the driver returns it. While one is in use as sql.RawBytes, its query could not be
// ended, and a transaction that is rolled back meanwhile would wait for it, and the next query for that.
type pageBytes []byte

// Scan implements sql.Scanner.
func (b *pageBytes) Scan(src any) error {
	page, ok := src.([]byte)
	if !ok {
		return errPage
	}
	*b = page
	return nil
}

// each calls do with the pages of these numbers. A page is valid until the next one.
func (p *pageReader) each(depth int, numbers []uint32, do func(page []byte) error) error {
	fetch, err := p.pages(depth)
	if err != nil {
		return err
	}
	list := []byte{'['}
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, uint64(n), 10)
	}
	rows, err := fetch.QueryContext(p.ctx, string(append(list, ']')))
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var page pageBytes
		if err := rows.Scan(&page); err != nil {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != len(numbers) {
		return errPage
	}
	return nil
}

// tree calls do with the records of pages and those below them, and with the record between each page and the next one.
func (p *pageReader) tree(depth int, numbers []uint32, between [][]byte, do func(record []byte) error) error {
	if depth > maxDepth {
		return errPage
	}
	n := 0
	return p.each(depth, numbers, func(page []byte) error {
		if err := p.page(depth, page, do); err != nil {
			return err
		}
		if n++; n > len(between) {
			return nil
		}
		return do(between[n-1])
	})
}

// The types of pages, and where their cells are listed.
const (
	interiorPage, interiorCells = 2, 12
	leafPage, leafCells         = 10, 8
)

func (p *pageReader) page(depth int, page []byte, do func(record []byte) error) error {
	switch {
	case len(page) < p.usable:
		return errPage
	case page[0] == interiorPage:
		return p.interior(depth, page, do)
	case page[0] != leafPage:
		return errPage
	}
	for at, err := range cells(page, leafCells) {
		if err != nil {
			return err
		}
		record, err := p.record(page, at)
		if err != nil {
			return err
		}
		if err := do(record); err != nil {
			return err
		}
	}
	return nil
}

// interior is page for one with pages below it.
func (p *pageReader) interior(depth int, page []byte, do func(record []byte) error) error {
	var below []uint32
	var between [][]byte
	for at, err := range cells(page, interiorCells) {
		if err != nil || at+4 > len(page) {
			return errPage
		}
		record, err := p.record(page, at+4)
		if err != nil {
			return err
		}
		below, between = append(below, binary.BigEndian.Uint32(page[at:])), append(between, slices.Clone(record))
	}
	return p.tree(depth+1, append(below, binary.BigEndian.Uint32(page[8:])), between, do)
}

// cells yields where the cells of a page are.
func cells(page []byte, listed int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		n := int(binary.BigEndian.Uint16(page[3:]))
		if listed+2*n > len(page) {
			yield(0, errPage)
			return
		}
		for i := range n {
			if !yield(int(binary.BigEndian.Uint16(page[listed+2*i:])), nil) {
				return
			}
		}
	}
}

// record returns the record of a cell, the rest of which may be on other pages.
func (p *pageReader) record(page []byte, at int) ([]byte, error) {
	size, n := varint(page[min(at, len(page)):])
	if at += n; n == 0 || size > maxRow {
		return nil, errPage
	}
	total, local := int(size), p.local(int(size))
	switch {
	case local == total && at+local <= len(page):
		return page[at : at+local], nil
	case local == total || at+local+4 > len(page):
		return nil, errPage
	}
	return p.rest(slices.Clone(page[at:at+local]), total, binary.BigEndian.Uint32(page[at+local:]))
}

// local returns how many bytes of a record of some bytes are on the page of its cell.
func (p *pageReader) local(total int) int {
	most, least := (p.usable-12)*64/255-23, (p.usable-12)*32/255-23
	if total <= most {
		return total
	}
	if n := least + (total-least)%(p.usable-4); n <= most {
		return n
	}
	return least
}

// rest appends the rest of a record, which is on a list of pages.
func (p *pageReader) rest(record []byte, total int, number uint32) ([]byte, error) {
	for len(record) < total {
		err := p.each(0, []uint32{number}, func(page []byte) error {
			if len(page) < p.usable {
				return errPage
			}
			number = binary.BigEndian.Uint32(page)
			record = append(record, page[4:min(p.usable, 4+total-len(record))]...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return record, nil
}
