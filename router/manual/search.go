package manual

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of a search.
const (
	maxQuery   = 200 // bytes that are searched for
	maxResults = 50
	maxExcerpt = 240 // bytes around the first word
)

// result is a section that contains all words of a query.
type result struct {
	Page    Page
	ID      string // of the section's heading, "" for the page's beginning
	Title   string // of the section
	Excerpt string
	score   int
}

// search returns the sections that contain all words of the query, case-insensitively;
// those with more of them in their titles first, then in the order of the pages.
func search(all []*document, query string) []result {
	words := strings.Fields(strings.ToLower(query[:min(len(query), maxQuery)]))
	if len(words) == 0 {
		return nil
	}
	var found []result
	for _, d := range all {
		for _, s := range d.sections {
			if score := s.score(words); score > 0 {
				found = append(found, result{Page: d.Page, ID: s.ID, Title: s.Title, Excerpt: excerpt(s.Text, words), score: score})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b result) int { return cmp.Compare(b.score, a.score) })
	return found[:min(len(found), maxResults)]
}

// score returns 0 unless the section contains all words, and more for each of them in
// its title.
func (s section) score(words []string) int {
	title, body := strings.ToLower(s.Title), strings.ToLower(s.Text)
	score := 1
	for _, w := range words {
		switch {
		case strings.Contains(title, w):
			score++
		case !strings.Contains(body, w):
			return 0
		}
	}
	return score
}

// excerpt returns the text around the first occurrence of a word, cut between words.
func excerpt(s string, words []string) string {
	first := firstOf(s, words)
	start := max(0, first-maxExcerpt/3)
	end := min(len(s), start+maxExcerpt)
	for start > 0 && !utf8.RuneStart(s[start]) {
		start--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	if i := strings.IndexByte(s[start:max(start, first)], ' '); start > 0 && i >= 0 {
		start += i + 1
	}
	if i := strings.LastIndexByte(s[:end], ' '); end < len(s) && i > max(start, first) {
		end = i
	}
	cut := s[start:end]
	if start > 0 {
		cut = "… " + cut
	}
	if end < len(s) {
		cut += " …"
	}
	return cut
}

// firstOf returns the position of the first occurrence of a word, -1 for none.
func firstOf(s string, words []string) int {
	lower, first := strings.ToLower(s), -1
	if len(lower) != len(s) { // positions in the two differ
		return first
	}
	for _, w := range words {
		if i := strings.Index(lower, w); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}
