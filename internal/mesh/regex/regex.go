// Package regex checks the regular expressions that users write, as Envoy's engine (RE2, on bytes) reads them. Envoy refuses a whole
// resource for one that it cannot compile.
//
// Every field that reaches Envoy as a regular expression is checked here, when it is read and again when its message is built. The package
// must not know the fields, nor how a mistake is reported.
package regex

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxProgram is the size of the largest program that proxies run: runtime key re2.max_program_size.error_level of their bootstrap.
const maxProgram = 32768

// Check returns the reason why Envoy would refuse a regular expression, or nil if Envoy accepts it. Go's syntax is RE2's, except for
// the differences that are checked here.
func Check(re string) error {
	// (?<name>…) came to Go before it came to the RE2 that Envoy is built with.
	if strings.Contains(re, "(?<") {
		return fmt.Errorf("unsupported group %q", "(?<")
	}
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return err
	}
	if err := checkEscapes(re); err != nil {
		return err
	}
	if n := programSize(parsed); n > maxProgram {
		return fmt.Errorf("its program has about %d instructions, and proxies run %d at most", n, maxProgram)
	}
	return nil
}

// checkEscapes checks the escapes of an expression that Go accepts. Envoy's RE2 matches bytes, so it accepts no character above \xFF by
// number; and RE2 knows fewer Unicode classes than Go, only by their exact names.
func checkEscapes(re string) error {
	for {
		i := strings.IndexByte(re, '\\')
		if i < 0 || i+1 >= len(re) {
			return nil
		}
		kind := re[i+1]
		re = re[i+2:]
		switch kind {
		case 'Q': // literal text up to \E
			_, rest, _ := strings.Cut(re, `\E`)
			re = rest
		case 'x':
			digits, _, braced := strings.Cut(strings.TrimPrefix(re, "{"), "}")
			if !strings.HasPrefix(re, "{") || !braced {
				continue
			}
			if n, err := strconv.ParseUint(digits, 16, 32); err != nil || n > 0xff {
				return fmt.Errorf(`invalid escape sequence \x{%s}: proxies match bytes; write the character itself`, digits)
			}
		case 'p', 'P':
			name := re[:min(1, len(re))]
			if strings.HasPrefix(re, "{") {
				name, _, _ = strings.Cut(re[1:], "}")
				name = strings.TrimPrefix(name, "^")
			}
			if !knownClass(name) {
				return fmt.Errorf(`unknown Unicode class \%c{%s}: proxies know Any, general categories such as Lu, and scripts such as Greek`, kind, name)
			}
		}
	}
}

// categories are the Unicode classes of RE2 that are not scripts.
var categories = strings.Fields("Any C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs")

// youngScripts are scripts that came with Unicode 16 and later, which the RE2 of an Envoy may not know.
var youngScripts = strings.Fields("Beria_Erfe Garay Gurung_Khema Kirat_Rai Ol_Onal Sidetic Sunuwar Tai_Yo Todhri Tolong_Siki Tulu_Tigalari")

func knownClass(name string) bool {
	_, script := unicode.Scripts[name]
	return slices.Contains(categories, name) || script && !slices.Contains(youngScripts, name)
}

// programSize returns about how many instructions RE2 makes of an expression: one for each byte of a literal, and for each range of a class
// below 256, because Envoy's RE2 matches bytes. (Tried on Envoy 1.40. Branches and captures are not counted, so the result is seldom more
// than the true size.)
func programSize(re *syntax.Regexp) (size int) {
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	for _, inst := range program.Inst {
		switch inst.Op {
		case syntax.InstRune1:
			size += utf8.RuneLen(inst.Rune[0])
		case syntax.InstRune:
			size += max(1, ranges(inst.Rune))
		case syntax.InstRuneAny:
			size++
		case syntax.InstRuneAnyNotNL:
			size += 2
		}
	}
	return size
}

// ranges counts the ranges of a class, given as pairs, that begin below 256. A single rune is in the class together with its other case.
func ranges(pairs []rune) (n int) {
	for i := 0; i+1 < len(pairs) && pairs[i] < 256; i += 2 {
		n++
	}
	return n
}
