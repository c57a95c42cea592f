package console

import (
	"cmp"
	"slices"
)

// platformPages are those outside of projects.
func platformPages() []*page {
	return []*page{
		{path: "/ui/home", name: "home", role: viewer, help: "first-steps", calls: []string{"listProjects", "listBrokers", "getMetricHistory"}, view: viewHome,
			fragments: []string{"brokers"}},
	}
}

// homeView is the brokers of all projects.
type homeView struct {
	frame
	Projects []homeProject
	LoadHead []string
	Full     map[string]string // what an abbreviated head stands for
	Paging   paging
}

// homeProject is a project with its brokers.
type homeProject struct {
	projectRecord
	Brokers part[[]brokerRecord]
	Rows    []loadedBroker
}

func viewHome(q *request) (view, error) {
	var all []projectRecord
	if err := q.get("listProjects", nil, &all); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b projectRecord) int { return cmp.Compare(a.Name, b.Name) })
	offset, size := q.window()
	shown := all[min(offset, len(all)):min(offset+size, len(all))]
	v := &homeView{Projects: make([]homeProject, len(shown)), Paging: q.paging(len(all))}
	v.LoadHead, v.Full = q.loadHead()
	var g parts
	for i := range v.Projects {
		p := &v.Projects[i]
		p.projectRecord = shown[i]
		loadWith(&g, q, &p.Brokers, "listBrokers", map[string]string{"projectId": p.ID}, nil)
	}
	g.wait()
	v.loadBrokers(q)
	return v, nil
}

// loadBrokers completes the brokers of the projects with what they do now.
func (v *homeView) loadBrokers(q *request) {
	var g parts
	left := maxLoads
	for i := range v.Projects {
		p := &v.Projects[i]
		p.Rows = q.loaded(&g, p.ID, p.Brokers.Value, left)
		left = max(left-len(p.Rows), 0)
	}
	g.wait()
	for i := range v.Projects {
		setTexts(q.lang, v.Projects[i].Rows)
	}
}
