package console

import (
	"html/template"
	"text/template/parse"
)

// foldConstants replaces calls of functions with constants, such as {{t "clients.add"}}, by what
// they return: a set of templates is of one language and one depth of the path. A table of 50 rows
// and the frame around it have hundreds of them, and each costs a call by reflection, and another
// one to escape what it returns.
func foldConstants(t *template.Template, functions template.FuncMap) {
	for _, x := range t.Templates() {
		if x.Tree != nil {
			foldList(x.Tree.Root, functions)
		}
	}
}

func foldList(list *parse.ListNode, functions template.FuncMap) {
	if list == nil {
		return
	}
	for i, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if text, constant := constantOf(n.Pipe, functions); constant {
				list.Nodes[i] = &parse.TextNode{NodeType: parse.NodeText, Pos: n.Pos, Text: []byte(text)}
			}
		case *parse.IfNode:
			foldBranch(&n.BranchNode, functions)
		case *parse.RangeNode:
			foldBranch(&n.BranchNode, functions)
		case *parse.WithNode:
			foldBranch(&n.BranchNode, functions)
		}
	}
}

func foldBranch(n *parse.BranchNode, functions template.FuncMap) {
	foldList(n.List, functions)
	foldList(n.ElseList, functions)
}

// constantOf returns as HTML what a pipeline inserts that is one call of a function with at most
// one argument, a string.
func constantOf(p *parse.PipeNode, functions template.FuncMap) (html string, constant bool) {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 {
		return "", false
	}
	args := p.Cmds[0].Args
	name, isFunction := args[0].(*parse.IdentifierNode)
	if !isFunction {
		return "", false
	}
	if f, ok := functions[name.Ident].(func() string); ok && len(args) == 1 {
		return template.HTMLEscapeString(f()), true
	}
	if len(args) != 2 {
		return "", false
	}
	arg, isString := args[1].(*parse.StringNode)
	if !isString {
		return "", false
	}
	switch f := functions[name.Ident].(type) {
	case func(string) string:
		return template.HTMLEscapeString(f(arg.Text)), true
	case func(string, ...any) string:
		return template.HTMLEscapeString(f(arg.Text)), true
	case func(string) template.HTML:
		return string(f(arg.Text)), true
	}
	return "", false
}
