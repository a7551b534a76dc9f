package language

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// memberFunction is the name of member in templates.
const memberFunction = "member"

// methods are the names beside Get… that templates may call as methods.
var methods = []string{
	"String", "AsDuration", "AsTime", "Seconds", "Minutes", "Hours", "Milliseconds", "Value", "MilliValue", "IsZero", "Cpu", "Memory",
	"StorageEphemeral",
}

func isMethod(name string) bool {
	return strings.HasPrefix(name, "Get") && len(name) > len("Get") || slices.Contains(methods, name)
}

// bind rewrites t, and all templates that it defines: .ProxyConfig.GetStatusPort becomes (member .ProxyConfig "GetStatusPort").
func bind(t *template.Template) {
	for _, one := range t.Templates() {
		if one.Tree != nil {
			bindList(one.Root)
		}
	}
}

func bindList(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.ActionNode:
			bindPipe(n.Pipe)
		case *parse.TemplateNode:
			bindPipe(n.Pipe)
		case *parse.IfNode:
			bindBranch(&n.BranchNode)
		case *parse.RangeNode:
			bindBranch(&n.BranchNode)
		case *parse.WithNode:
			bindBranch(&n.BranchNode)
		}
	}
}

func bindBranch(n *parse.BranchNode) {
	bindPipe(n.Pipe)
	bindList(n.List)
	bindList(n.ElseList)
}

func bindPipe(pipe *parse.PipeNode) {
	if pipe == nil {
		return
	}
	for _, command := range pipe.Cmds {
		for i, arg := range command.Args {
			if i == 0 && len(command.Args) > 1 {
				continue // a function, or a method with arguments, which the engine refuses
			}
			command.Args[i] = bound(arg)
		}
	}
}

// bound returns the node to use in place of an argument.
func bound(node parse.Node) parse.Node {
	switch n := node.(type) {
	case *parse.PipeNode:
		bindPipe(n)
	case *parse.FieldNode:
		return linked(n, &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}, n.Ident)
	case *parse.VariableNode:
		variable := *n
		variable.Ident = n.Ident[:1]
		return linked(n, &variable, n.Ident[1:])
	case *parse.ChainNode:
		n.Node = bound(n.Node)
		return linked(n, n.Node, n.Field)
	}
	return node
}

// linked returns a node for the fields and methods called names of a base. If none is a method, it is whole.
func linked(whole, base parse.Node, names []string) parse.Node {
	at := slices.IndexFunc(names, isMethod)
	if at < 0 {
		return whole
	}
	pos := whole.Position()
	for ; at >= 0; at = slices.IndexFunc(names, isMethod) {
		receiver := chained(base, names[:at], pos)
		name := &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: strconv.Quote(names[at]), Text: names[at]}
		base = &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{{
			NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{parse.NewIdentifier(memberFunction).SetPos(pos), receiver, name},
		}}}
		names = names[at+1:]
	}
	return chained(base, names, pos)
}

func chained(base parse.Node, names []string, pos parse.Pos) parse.Node {
	if len(names) == 0 {
		return base
	}
	if _, dot := base.(*parse.DotNode); dot {
		return &parse.FieldNode{NodeType: parse.NodeField, Pos: pos, Ident: names}
	}
	return &parse.ChainNode{NodeType: parse.NodeChain, Pos: pos, Node: base, Field: names}
}

// member returns a field or map entry, or what one of the methods returns. Getters of a nil pointer return the field's zero value, as those
// of protobuf messages do.
func member(of any, name string) (any, error) {
	v := reflect.ValueOf(of)
	if v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String {
		entry := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
		if entry.IsValid() {
			return entry.Interface(), nil
		}
		if list, is := of.(corev1.ResourceList); is {
			return quantityOf(list, name)
		}
		return reflect.Zero(v.Type().Elem()).Interface(), nil
	}
	for _, field := range []string{name, strings.TrimPrefix(name, "Get")} {
		if value, ok := fieldOf(v, field); ok {
			return value, nil
		}
	}
	if m, is := of.(proto.Message); is && strings.HasPrefix(name, "Get") {
		json := strings.ToLower(name[3:4]) + name[4:]
		if f := m.ProtoReflect().Descriptor().Fields().ByJSONName(json); f != nil && f.Message() != nil { // one of several: it has no field
			return m.ProtoReflect().Get(f).Message().Interface(), nil
		}
	}
	return call(of, v, name)
}

// fieldOf returns a field of a structure, or its zero value if v is a nil pointer.
func fieldOf(v reflect.Value, name string) (any, bool) {
	if !v.IsValid() {
		return nil, false
	}
	t, isNil := v.Type(), false
	if t.Kind() == reflect.Pointer {
		t, isNil = t.Elem(), v.IsNil()
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	f, ok := t.FieldByName(name)
	switch {
	case !ok || !f.IsExported():
		return nil, false
	case isNil:
		return reflect.Zero(f.Type).Interface(), true
	}
	return reflect.Indirect(v).FieldByIndex(f.Index).Interface(), true
}

func quantityOf(list corev1.ResourceList, name string) (any, error) {
	switch name {
	case "Cpu":
		return list.Cpu(), nil
	case "Memory":
		return list.Memory(), nil
	case "StorageEphemeral":
		return list.StorageEphemeral(), nil
	}
	return resource.Quantity{}, nil
}

// call calls one of the methods that are not getters.
func call(of any, v reflect.Value, name string) (any, error) {
	if v.IsValid() && v.Kind() != reflect.Pointer { // the methods of some types are those of their pointers
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		of = p.Interface()
	}
	if name == "String" {
		if s, is := of.(fmt.Stringer); is {
			return s.String(), nil
		}
	}
	switch x := of.(type) {
	case *durationpb.Duration:
		if name == "AsDuration" {
			return x.AsDuration(), nil
		}
	case *timestamppb.Timestamp:
		if name == "AsTime" {
			return x.AsTime(), nil
		}
	case *time.Duration:
		switch name {
		case "Seconds":
			return x.Seconds(), nil
		case "Minutes":
			return x.Minutes(), nil
		case "Hours":
			return x.Hours(), nil
		case "Milliseconds":
			return x.Milliseconds(), nil
		}
	case *resource.Quantity:
		switch name {
		case "Value":
			return x.Value(), nil
		case "MilliValue":
			return x.MilliValue(), nil
		case "IsZero":
			return x.IsZero(), nil
		}
	}
	return nil, fmt.Errorf("%T has no field %s, and no method of this name that templates may call", of, name)
}
