package dynamodbemu

import (
	"maps"
	"slices"
)

// projection reads a ProjectionExpression: paths, none of which is or contains
// another.
func (p *parser) projection() ([]path, error) {
	var paths []path
	for more := true; more; more = p.accept(",") {
		next, err := p.path()
		if err != nil {
			return nil, err
		}
		paths = append(paths, next)
	}
	p.checkOverlaps(paths)
	return paths, nil
}

// project returns the parts of an item that the paths lead to, in the maps and
// lists around them. Lists close up: they hold the chosen elements only.
func project(it item, paths []path) item {
	root := &selection{}
	for _, p := range paths {
		if _, ok := p.find(it); ok {
			root.insert(p)
		}
	}
	return root.fromMap(it)
}

// A selection is a tree of paths; a node without children stands for a whole value.
type selection struct{ children map[pathElement]*selection }

func (s *selection) insert(p path) {
	if len(p) == 0 {
		return
	}
	if s.children == nil {
		s.children = make(map[pathElement]*selection)
	}
	child := s.children[p[0]]
	if child == nil {
		child = &selection{}
		s.children[p[0]] = child
	}
	child.insert(p[1:])
}

func (s *selection) from(v value) value {
	switch {
	case s.children == nil:
		return v
	case v.kind == kindM:
		return mapValue(s.fromMap(v.fields))
	}
	var list []value
	places := slices.SortedFunc(maps.Keys(s.children), func(a, b pathElement) int { return a.index - b.index })
	for _, e := range places {
		list = append(list, s.children[e].from(v.list[e.index]))
	}
	return listValue(list)
}

func (s *selection) fromMap(it item) item {
	out := make(item, len(s.children))
	for e, child := range s.children {
		out[e.name] = child.from(it[e.name])
	}
	return out
}
