package handlers

import (
	"sync"
	"time"
)

// Bounds of the searches at the same time. Each asks many brokers, and a page that searches
// while its user types starts one for every few letters.
const (
	maxSearches       = 16
	maxCallerSearches = 4
)

// retrySearch is when a caller whose search was refused may try again.
const retrySearch = time.Second

// searches counts the searches in progress. The zero value is ready to use.
type searches struct {
	mu       sync.Mutex // guards what follows
	all      int
	byCaller map[string]int
}

// begin admits a search of a caller, which the caller must end.
func (s *searches) begin(caller string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byCaller[caller] >= maxCallerSearches:
		return nil, &Error{Status: 429, Code: CodeSearchBusy, RetryAfter: retrySearch,
			Message: "you have too many searches in progress; wait until one ends"}
	case s.all >= maxSearches:
		return nil, searchBusy("too many searches are in progress; try again", nil)
	}
	if s.byCaller == nil {
		s.byCaller = map[string]int{}
	}
	s.all++
	s.byCaller[caller]++
	return func() { s.end(caller) }, nil
}

func (s *searches) end(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.byCaller[caller]--; s.byCaller[caller] == 0 {
		delete(s.byCaller, caller)
	}
}

func searchBusy(message string, cause error) *Error {
	return &Error{Status: 503, Code: CodeSearchBusy, RetryAfter: retrySearch, Message: message, Cause: cause}
}
