package refused

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// Bounds on the Lease of one control plane. An API server takes 256 KiB of annotations.
const (
	mostProblems = 200
	mostText     = 64 << 10 // bytes, of all in one Lease
	mostWords    = 1 << 10  // bytes, of one problem's message
)

// storedProblem is a problem as a Lease stores it.
type storedProblem struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Error     bool   `json:"error,omitempty"` // else it is a warning
	Message   string `json:"message"`
}

// Brief cuts each problem's message to the length that Leases hold, so that one problem from several control planes has one text.
func Brief(list []mesh.Problem) []mesh.Problem {
	list = slices.Clone(list)
	for i := range list {
		list[i].Message = printable.Text(list[i].Message, mostWords)
	}
	return list
}

// pack encodes as many problems of stored objects as a Lease holds: errors first, and one of each namespace in turn, so that one namespace
// does not displace the others. Empty: there is none.
func pack(list []mesh.Problem) string {
	stored := slices.DeleteFunc(slices.Clone(list), func(p mesh.Problem) bool { return p.Object.File != "" || p.Object.Name == "" })
	slices.SortFunc(stored, mesh.CompareUrgency)
	stored = slices.Compact(stored)
	type turn struct {
		severity  mesh.Severity
		namespace string
	}
	turns, when := map[turn]int{}, map[mesh.Problem]int{}
	for _, p := range stored {
		of := turn{p.Severity, p.Object.Namespace}
		when[p] = turns[of]
		turns[of]++
	}
	slices.SortStableFunc(stored, func(a, b mesh.Problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(when[a], when[b]))
	})
	var out []storedProblem
	size := len("[]")
	for _, p := range stored {
		one := storedProblem{
			Kind: p.Object.Kind, Namespace: p.Object.Namespace, Name: p.Object.Name,
			Error: p.Severity == mesh.Error, Message: p.Message,
		}
		text, err := json.Marshal(one)
		if err != nil || len(out) == mostProblems || size+len(text)+1 > mostText {
			break
		}
		size += len(text) + 1
		out = append(out, one)
	}
	if len(out) == 0 {
		return ""
	}
	text, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(text)
}

// unpack reads what pack wrote. It also bounds text that another client wrote, and makes it printable.
func unpack(text string) ([]mesh.Problem, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > mostText {
		return nil, fmt.Errorf("it has more than %d bytes", mostText)
	}
	var list []storedProblem
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, errors.New("its content cannot be read")
	}
	var out []mesh.Problem
	for i, one := range list {
		if i == mostProblems {
			break
		}
		odd := func(s string) bool { return !printable.Is(s, printable.Short) }
		if one.Name == "" || odd(one.Kind) || odd(one.Namespace) || odd(one.Name) {
			continue
		}
		p := mesh.Problem{
			Object: mesh.ObjectRef{Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}, Code: code.Refused,
			Severity: mesh.Warning, Message: printable.Text(one.Message, mostWords),
		}
		if one.Error {
			p.Severity = mesh.Error
		}
		out = append(out, p)
	}
	return out, nil
}
