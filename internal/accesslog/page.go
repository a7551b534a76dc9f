package accesslog

import (
	"fmt"
	"strings"
)

// titles are the sections of the page.
var titles = map[string]string{
	"flags":     "Flags",
	"details":   "Details",
	"http1":     "Details of HTTP/1",
	"http2":     "Details of HTTP/2",
	"http3":     "Details of HTTP/3",
	"filters":   "Details of filters",
	"resets":    "Reasons of resets",
	"closes":    "Ends of connections",
	"transport": "Reasons of failed connections",
	"answers":   "Answers without details",
}

// intros say what a section is about.
var intros = map[string]string{
	"flags":     "`%RESPONSE_FLAGS%`, and in the second column `%RESPONSE_FLAGS_LONG%`.",
	"details":   "`%RESPONSE_CODE_DETAILS%` of the connection manager and the router. A name with `…` goes on: in brackets is the reason.",
	"filters":   "`%RESPONSE_CODE_DETAILS%` and `%CONNECTION_TERMINATION_DETAILS%` of filters.",
	"resets":    "The text in the brackets of `upstream_reset_before_response_started{…}` and `upstream_reset_after_response_started{…}`.",
	"closes":    "The text in the brackets of `downstream_local_disconnect(…)`, and `%CONNECTION_TERMINATION_DETAILS%`.",
	"transport": "`%UPSTREAM_TRANSPORT_FAILURE_REASON%`, and the part behind `|` in the brackets of a reset. The text is somewhere in it.",
	"answers":   "The status of an answer of the proxy itself, if the format of the log has no details.",
}

// Page returns the table as a page in Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(`# What an access log says

Envoy writes into each line of its access log why a request ended as it did: response flags, and response code details. These tables have
each of them that Envoy documents, and more that its filters write. [pilotctl explain --log](truth.md#which-object-is-it) reads a line, and
names the object with its file and line.

Flags and details are written by ` + "`%RESPONSE_FLAGS%`, `%RESPONSE_CODE_DETAILS%`, `%CONNECTION_TERMINATION_DETAILS%`" + ` and
` + "`%UPSTREAM_TRANSPORT_FAILURE_REASON%`" + `. The default format of this project has them all; Envoy's own has the flags alone.

The page is made of ` + "`internal/accesslog/causes.txt`" + `; a test compares them.
`)
	for _, s := range table() {
		fmt.Fprintf(&b, "\n## %s\n", titles[s.name])
		if intros[s.name] != "" {
			fmt.Fprintf(&b, "%s\n", intros[s.name])
		}
		b.WriteByte('\n')
		if s.kind == Flag {
			b.WriteString("| flag | long name | it means | look at | what would be right |\n|---|---|---|---|---|\n")
		} else {
			b.WriteString("| text | it means | look at | what would be right |\n|---|---|---|---|\n")
		}
		for _, c := range s.causes {
			fmt.Fprintf(&b, "| `%s` |", strings.ReplaceAll(c.Name, "*", "…"))
			if s.kind == Flag {
				fmt.Fprintf(&b, " `%s` |", c.Long)
			}
			place, _ := PlaceCalled(c.Place)
			fmt.Fprintf(&b, " %s | %s | %s |\n", c.Means, place.Look, c.Right)
		}
	}
	return b.String()
}
