package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// watchList is the topics that are watched, which are in the address of the page.
type watchList struct {
	Watched     []watchedTopic
	Charts      []chart  // of the numbers of their messages
	NotRecorded []string // sentences why topics have none
	ValuesErr   *apiError
}

// watchedTopic is a topic of the watch list.
type watchedTopic struct {
	topicRow
	Err  *apiError
	Stop string // link that removes the topic from the list
}

// topicValues is a topic in the response of listTopicValues.
type topicValues struct {
	Topic    string        `json:"topic"`
	Recorded bool          `json:"recorded"`
	Reason   string        `json:"reason"`
	From     int64         `json:"from"`
	Step     int           `json:"step"`
	Series   []valueSeries `json:"series"`
}

// valueSeries is the numbers of one member.
type valueSeries struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
}

// watchList returns the watched topics with their state and their numbers.
func (q *request) watchList(topics []string, state part[topicLevel], values part[[]topicValues]) watchList {
	l := watchList{ValuesErr: values.Err, Charts: q.valueCharts(values.Value), NotRecorded: q.notRecorded(values.Value)}
	for _, topic := range topics {
		w := watchedTopic{topicRow: topicRow{Topic: topic}, Err: state.Err,
			Stop: q.watching(slices.DeleteFunc(slices.Clone(topics), func(t string) bool { return t == topic }))}
		if i := slices.IndexFunc(state.Value.Entries, func(e topicEntry) bool { return e.Topic == topic }); i >= 0 {
			w.topicRow = q.topicRow(state.Value.Entries[i], q.query.Get("as"))
		}
		l.Watched = append(l.Watched, w)
	}
	return l
}

// valueCharts returns a chart for each number of the topics: members of one message seldom have
// the same unit, so each has an axis of its own.
func (q *request) valueCharts(topics []topicValues) (charts []chart) {
	for i, v := range topics {
		for j, s := range v.Series {
			title, name := show(v.Topic), q.t("topics.number")
			if s.Name != "" {
				name = show(s.Name)
				title += " · " + name
			}
			charts = append(charts, q.newChart(chartData{ID: fmt.Sprintf("values-%d-%d", i, j), Title: title,
				From: v.From, Step: v.Step, Fit: true, Series: []chartSeries{{Name: name, Values: s.Values}}}))
		}
	}
	return charts
}

// notRecorded returns a sentence for each reason why topics are not recorded.
func (q *request) notRecorded(topics []topicValues) (sentences []string) {
	names := map[string][]string{}
	for _, v := range topics {
		if !v.Recorded {
			names[v.Reason] = append(names[v.Reason], show(v.Topic))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(names)) {
		sentences = append(sentences, q.t("topics.not_recorded."+reason, strings.Join(names[reason], ", ")))
	}
	return sentences
}

// maxWatched bounds the watch list: each topic of it is read at every refresh.
const maxWatched = 10

// watchedTopics returns the topics of the watch list.
func (q *request) watchedTopics() (list []string) {
	for _, topic := range q.query["watched"] {
		if topic != "" && len(list) < maxWatched && !slices.Contains(list, topic) {
			list = append(list, topic)
		}
	}
	return list
}

// watchQuery asks for the topics of the watch list.
func (q *request) watchQuery(topics []string) url.Values {
	query := url.Values{"topic": topics}
	if node := q.query.Get("nodeid"); node != "" {
		query.Set("nodeid", node)
	}
	return query
}

// watching returns the link to the page with another watch list.
func (q *request) watching(topics []string) string {
	query := maps.Clone(q.query)
	query["watched"] = topics
	return "?" + query.Encode()
}
