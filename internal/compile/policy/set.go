package policy

import (
	"slices"
	"strconv"
	"strings"

	"fairway/internal/config"
)

// Set names policies, of any kinds, in canonical form: equal sets are equal texts. The empty text is the empty set.
type Set string

// MakeSet gives the set of some policies.
func MakeSet(keys ...config.Key) Set {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, config.CompareKey)
	var b strings.Builder
	for _, k := range slices.Compact(keys) {
		for _, part := range []string{string(k.Kind), k.Namespace, k.Name} {
			b.WriteString(strconv.Quote(part))
		}
	}
	return Set(b.String())
}

// Of lists the policies of a kind, in order of namespace and name.
func (s Set) Of(kind config.Kind) (out []config.Key) {
	for rest := string(s); rest != ""; {
		var parts [3]string
		for i := range parts {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return out // no set of MakeSet
			}
			parts[i], _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		}
		if config.Kind(parts[0]) == kind {
			out = append(out, config.Key{Kind: kind, Namespace: parts[1], Name: parts[2]})
		}
	}
	return out
}

// String lists the policies for people.
func (s Set) String() string {
	return strings.ReplaceAll(strings.ReplaceAll(string(s), `""`, "/"), `"`, " ")
}
