package report

import (
	"slices"
	"strings"
	"unicode"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Rest adds the other mistakes of a document that has errors. judge reports all problems, twice: if the fields with errors are
// absent, and if they have some value. A problem counts only if it is found both times, because it does not depend on these fields then.
func (r *Report) Rest(judge func(set bool, r *Report)) {
	if r.Full() {
		return
	}
	var known []mesh.Problem
	for _, p := range r.problems {
		if p.Severity == mesh.Error {
			known = append(known, p)
		}
	}
	found := func(set bool) []mesh.Problem {
		trial := Report{Document: r.Document, Ref: r.Ref, Accepted: r.Accepted, lines: r.lines}
		judge(set, &trial)
		return trial.Sorted()
	}
	again := map[mesh.Problem]bool{}
	for _, p := range found(true) {
		again[p] = true
	}
	for _, p := range found(false) {
		if again[p] && !follows(p, known) {
			r.Add(p.Field, p.Code, p.Severity, p.Message, p.Fix)
		}
	}
}

// follows reports whether a problem may be a consequence of one of the errors, or the same mistake in other words.
func follows(p mesh.Problem, errors []mesh.Problem) bool {
	return slices.ContainsFunc(errors, func(e mesh.Problem) bool {
		at, of := dotted(p.Field), dotted(e.Field)
		rest, below := strings.CutPrefix(at, of)
		below = below && (of == "" || rest == "" || rest[0] == '.')
		switch {
		case at == of, at == parent(of):
			return true
		case strings.HasPrefix(of, "metadata"):
			return false
		case below && e.Code != code.Invalid:
			return true // the value is not what it should be
		case below:
			return strings.Count(rest, ".") == 1 || named(rest, e.Message) // a rule of the schema is about the fields of one place
		case e.Code == code.Invalid || e.Code == code.Duplicate || e.Code == code.Missing:
			return false // the value could be read
		case e.Code == code.UnknownValue && parent(parent(of)) != "":
			return strings.HasPrefix(at, parent(of)+".") // a word that says what its neighbours mean
		case parent(at) == parent(of):
			return e.Code == code.WrongType && isObject(e.Message) || named(of, p.Message)
		case relates(p.Code), strings.HasPrefix(at, parent(list(of))+"."):
			return named(of, p.Message)
		}
		return false
	})
}

// relates reports whether problems with a code compare a field with others.
func relates(word string) bool {
	return slices.Contains([]string{
		code.BadProtocol, code.Conflict, code.UnknownPort, code.Unreachable, code.UnreachableRoute, code.Unused,
	}, word)
}

// isObject reports whether the message of a value of a wrong type asks for an object.
func isObject(message string) bool {
	return strings.HasSuffix(message, " is not of type object") || strings.HasSuffix(message, " is not a set of fields")
}

// dotted writes a field with dots alone, because the library and our own paths write the keys of maps in two ways.
func dotted(field string) string { return strings.NewReplacer("[", ".", "]", "").Replace(field) }

func parent(dotted string) string { return dotted[:max(strings.LastIndexByte(dotted, '.'), 0)] }

// list returns the list that an item is in, and other fields as they are.
func list(dotted string) string {
	if last := dotted[strings.LastIndexByte(dotted, '.')+1:]; strings.Trim(last, "0123456789") == "" {
		return parent(dotted)
	}
	return dotted
}

// named reports whether a message has one of the last two names of a path, in singular or plural.
func named(dotted, message string) bool {
	words := strings.FieldsFunc(strings.ToLower(message), func(r rune) bool { return !unicode.IsLetter(r) })
	for range 2 {
		dotted = list(dotted)
		name := strings.ToLower(dotted[strings.LastIndexByte(dotted, '.')+1:])
		if name != "spec" && slices.ContainsFunc(words, func(w string) bool {
			return len(name) > 2 && (w == name || w+"s" == name || w == name+"s" || w == name+"es")
		}) {
			return true
		}
		dotted = parent(dotted)
	}
	return false
}
