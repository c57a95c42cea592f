package query

// Cause is why a message has no output.
type Cause struct {
	Path   string // place in the query object, as in Problem; "" for the payload itself
	Reason Reason // "" for none
}

// Reason is what a message lacks. Its values are part of the API.
type Reason string

// The reasons.
const (
	NotJSON        Reason = "notJSON"
	Missing        Reason = "missing"        // the value of a select
	NotNumber      Reason = "notNumber"      // a value to aggregate, or one of too many digits
	Overflow       Reason = "overflow"       // of a sum
	ConditionFalse Reason = "conditionFalse" // the only one of a message that is filtered
)

// wherePath is the place of the only condition.
const wherePath = "where[0]"
