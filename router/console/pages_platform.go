package console

import (
	"cmp"
	"slices"
)

// platformPages are those outside of projects.
func platformPages() []*page {
	return []*page{
		{path: "/ui/home", name: "home", role: viewer, help: "first-steps", calls: []string{"listProjects", "listBrokers"}, view: viewHome,
			fragments: []string{"brokers"}},
	}
}

// homeView is the brokers of all projects.
type homeView struct {
	frame
	Projects []homeProject
	Paging   paging
}

// homeProject is a project with its brokers.
type homeProject struct {
	projectRecord
	Brokers part[[]brokerRecord]
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
	var g parts
	for i := range v.Projects {
		p := &v.Projects[i]
		p.projectRecord = shown[i]
		loadWith(&g, q, &p.Brokers, "listBrokers", map[string]string{"projectId": p.ID}, nil)
	}
	g.wait()
	for _, p := range v.Projects {
		for i := range p.Brokers.Value {
			status := &p.Brokers.Value[i].Status
			status.Error = q.inConnectionTerms(status.Error)
		}
	}
	return v, nil
}
