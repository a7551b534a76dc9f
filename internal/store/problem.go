package store

import (
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Problem describes a mistake in an object.
type Problem = mesh.Problem

// refusal is a problem of a whole value.
func refusal(k config.Key, file, message, fix string) Problem {
	return Problem{
		Object: mesh.ObjectRef{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name, File: file, Line: 1},
		Line:   1, Code: code.NotAnObject, Severity: mesh.Error, Message: message, Fix: fix,
	}
}

func failed(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == mesh.Error })
}
