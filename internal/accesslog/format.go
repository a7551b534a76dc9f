package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a format.
const (
	mostFormat    = 16 << 10
	mostOperators = 200
	mostDepth     = 8 // of objects in JSON
)

// Format reads lines of one format.
type Format struct {
	name   string
	text   *regexp.Regexp     // of a line of text
	fields []string           // the operators that its groups have
	object map[string]*Format // of a JSON object: the format of each key; keys of inner objects have dots
}

// operator is an operator in a format: a name, arguments in brackets, which may have brackets and percent signs of their own, a length.
var operator = regexp.MustCompile(`%([A-Z0-9_]+)(\((?:[^()]|\([^()]*\))*\))?(?::[0-9]+)?%`)

// NewFormat reads a format as accessLogFormat of the mesh configuration has it: a text with operators, or a JSON object of such.
func NewFormat(text string) (*Format, error) {
	switch {
	case len(text) > mostFormat:
		return nil, fmt.Errorf("the format has %d bytes, at most %d may be", len(text), mostFormat)
	case !utf8.ValidString(text):
		return nil, errors.New("the format is not UTF-8")
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			return nil, fmt.Errorf("the format begins like JSON and is none: %w", err)
		}
		f := &Format{name: "given", object: map[string]*Format{}}
		if err := f.keys(object, "", 0); err != nil {
			return nil, err
		}
		return f, nil
	}
	f, err := textFormat("given", text)
	if err == nil && len(f.fields) == 0 {
		err = errors.New("the format has no operator such as %RESPONSE_CODE%")
	}
	return f, err
}

// keys adds the formats of an object's keys.
func (f *Format) keys(object map[string]any, above string, depth int) error {
	if depth > mostDepth || len(f.object) > mostOperators {
		return fmt.Errorf("the format has more than %d levels or %d keys", mostDepth, mostOperators)
	}
	for key, v := range object {
		switch v := v.(type) {
		case string:
			one, err := textFormat("given", v)
			if err != nil {
				return err
			}
			f.object[above+key] = one
		case map[string]any:
			if err := f.keys(v, above+key+".", depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// textFormat makes a format of a text with operators.
func textFormat(name, text string) (*Format, error) {
	text = strings.TrimRight(text, "\r\n")
	f := &Format{name: name}
	var pattern strings.Builder
	pattern.WriteString(`^`)
	at := 0
	for _, m := range operator.FindAllStringSubmatchIndex(text, -1) {
		pattern.WriteString(literal(text[at:m[0]]))
		at = m[1]
		op := text[m[2]:m[3]]
		value := values(op)
		if m[4] >= 0 {
			switch op {
			case "REQ":
				op += strings.ToUpper(text[m[4]:m[5]])
				value = values(op)
			case "RESPONSE_CODE_DETAILS", "START_TIME": // they may have spaces, or brackets, then
				value = `.*?`
			}
		}
		pattern.WriteString("(" + value + ")")
		if f.fields = append(f.fields, op); len(f.fields) > mostOperators {
			return nil, fmt.Errorf("the format has more than %d operators", mostOperators)
		}
	}
	pattern.WriteString(literal(text[at:]) + `$`)
	re, err := regexp.Compile(pattern.String())
	if err != nil {
		return nil, fmt.Errorf("the format cannot be read: %w", err)
	}
	f.text = re
	return f, nil
}

// literal returns the pattern of the text between operators; %% is a percent sign.
func literal(text string) string { return regexp.QuoteMeta(strings.ReplaceAll(text, "%%", "%")) }

// values returns the pattern of an operator's values. Exact ones keep quotes in a client's header from shifting the fields.
func values(op string) string {
	switch op {
	case "RESPONSE_CODE":
		return `-|[0-9]{1,3}`
	case "RESPONSE_FLAGS":
		return `-|[A-Z]{2,8}(?:,[A-Z]{2,8})*`
	case "RESPONSE_FLAGS_LONG":
		return `-|[A-Za-z]+(?:,[A-Za-z]+)*`
	case "PROTOCOL":
		return `-|HTTP/[0-9.]+`
	case "BYTES_RECEIVED", "BYTES_SENT", "DURATION", "RESPONSE_DURATION", "REQUEST_DURATION", "RESPONSE_TX_DURATION":
		return `-|[0-9]+`
	case "START_TIME":
		return `[^\[\]"]*?`
	case "REQ(:METHOD)", "UPSTREAM_HOST", "UPSTREAM_CLUSTER", "UPSTREAM_CLUSTER_RAW", "UPSTREAM_LOCAL_ADDRESS",
		"DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_REMOTE_ADDRESS", "REQUESTED_SERVER_NAME", "RESPONSE_CODE_DETAILS":
		return `\S*?`
	}
	return `.*?`
}

// read reads a line; false: it has another format.
func (f *Format) read(line string, e *Entry) bool {
	if f.object != nil {
		return f.readObject(line, e)
	}
	m := f.text.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	for i, op := range f.fields {
		e.set(op, m[i+1])
	}
	return true
}

// readObject reads a line that is a JSON object.
func (f *Format) readObject(line string, e *Entry) bool {
	fields, ok := flat(line)
	if !ok {
		return false
	}
	for key, one := range f.object {
		if v, has := fields[key]; has {
			one.read(v, e)
		}
	}
	return true
}

// flat returns the texts and numbers of a JSON object by key; keys of inner objects have dots.
func flat(line string) (map[string]string, bool) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil || object == nil {
		return nil, false
	}
	out := map[string]string{}
	flatten(object, "", 0, out)
	return out, true
}

func flatten(object map[string]any, above string, depth int, out map[string]string) {
	for key, v := range object {
		switch v := v.(type) {
		case string:
			out[above+key] = v
		case json.Number:
			out[above+key] = v.String()
		case []any: // flags may be a list
			var texts []string
			for _, x := range v {
				if s, ok := x.(string); ok && len(texts) < mostFlags {
					texts = append(texts, s)
				}
			}
			out[above+key] = strings.Join(texts, ",")
		case map[string]any:
			if depth < mostDepth {
				flatten(v, above+key+".", depth+1, out)
			}
		}
	}
}

// Formats that lines are tried in. Envoy's own is documented in "Default format string" of its access logs; Istio's in "Envoy Access Logs".
const (
	start      = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% `
	sizes      = `%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% `
	headers    = `"%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`
	reasons    = `%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" `
	addresses  = ` %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS%`
	names      = ` %REQUESTED_SERVER_NAME% %ROUTE_NAME%`
	envoyText  = start + sizes + headers
	istioText  = start + reasons + sizes + headers + addresses + names
	istioOlder = start + `"%DYNAMIC_METADATA(istio.mixer:status)%" "%UPSTREAM_TRANSPORT_FAILURE_REASON%" ` + sizes + headers + addresses + names
)

// known are the formats of text; the first one that fits is used.
var known = []*Format{must("Istio", istioText), must("Envoy", envoyText), must("Istio", istioOlder)}

func must(name, text string) *Format {
	f, err := textFormat(name, text)
	if err != nil {
		panic(err)
	}
	return f
}

// jsonKeys are keys of JSON that name a field without a format: Istio's, which are this project's, and names that others use.
var jsonKeys = map[string][]string{
	"START_TIME":                        {"start_time", "startTime", "time", "@timestamp"},
	"REQ(:METHOD)":                      {"method", "request_method", "requestMethod", ":method"},
	"REQ(:PATH)":                        {"path", "x-envoy-original-path", "request_path", "requestPath", "uri", ":path"},
	"REQ(:AUTHORITY)":                   {"authority", ":authority", "host", "request_host"},
	"PROTOCOL":                          {"protocol"},
	"RESPONSE_CODE":                     {"response_code", "responseCode", "status", "status_code", "code"},
	"RESPONSE_FLAGS":                    {"response_flags", "responseFlags", "flags", "response_flags_long", "responseFlagsLong"},
	"RESPONSE_CODE_DETAILS":             {"response_code_details", "responseCodeDetails", "details"},
	"CONNECTION_TERMINATION_DETAILS":    {"connection_termination_details", "connectionTerminationDetails"},
	"UPSTREAM_TRANSPORT_FAILURE_REASON": {"upstream_transport_failure_reason", "upstreamTransportFailureReason"},
	"ROUTE_NAME":                        {"route_name", "routeName"},
	"UPSTREAM_CLUSTER":                  {"upstream_cluster", "upstreamCluster", "cluster"},
	"UPSTREAM_HOST":                     {"upstream_host", "upstreamHost"},
	"UPSTREAM_LOCAL_ADDRESS":            {"upstream_local_address", "upstreamLocalAddress"},
	"DOWNSTREAM_LOCAL_ADDRESS":          {"downstream_local_address", "downstreamLocalAddress"},
	"DOWNSTREAM_REMOTE_ADDRESS":         {"downstream_remote_address", "downstreamRemoteAddress"},
	"REQUESTED_SERVER_NAME":             {"requested_server_name", "requestedServerName"},
}

// readKeys reads a JSON object by the names of its keys, at any depth.
func readKeys(line string, e *Entry) bool {
	fields, ok := flat(line)
	if !ok {
		return false
	}
	ends := map[string]string{} // by the last part of the key
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		end := key[strings.LastIndexByte(key, '.')+1:]
		if _, twice := ends[end]; !twice || key == end {
			ends[end] = fields[key]
		}
	}
	for op, keys := range jsonKeys {
		if i := slices.IndexFunc(keys, func(k string) bool { return ends[k] != "" }); i >= 0 {
			e.set(op, ends[keys[i]])
		}
	}
	return true
}
