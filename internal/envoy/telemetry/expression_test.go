package telemetry_test

import (
	"strings"
	"testing"

	"fairway/internal/envoy/telemetry"
)

// TestExpressions: every function that stock Envoy has may be used, and no other.
func TestExpressions(t *testing.T) {
	for _, good := range []string{
		"a ? b : c", "a && b", "a || b", "!a", "a == 1", "a != 1", "a < 1", "a <= 1", "a > 1", "a >= 1", "a + 1", "a - 1",
		"a * 2", "a / 2", "a % 2",
		"-a == 1", "a[0]", "1 in a", "size(a)", "a.matches('b')", "a.contains('b')", "a.startsWith('b')", "a.endsWith('b')",
		"int(a)", "uint(a)", "double(a)", "bytes(a)", "dyn(a)", "type(a)", "duration(a)", "timestamp(a)",
		"a.getFullYear()", "a.getMonth()", "a.getDayOfMonth()", "a.getDayOfWeek()", "a.getDayOfYear()", "a.getHours()", "a.getMinutes()",
		"a.getSeconds()", "a.getMilliseconds()", "has(a.b)", "a" + strings.Repeat(" ", 4095),
	} {
		if got, err := telemetry.Expression(good); err != nil || got != good {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"string(a)": "no function string", "a.getDate()": "no function getDate", "a.all(b, true)": "no all, exists",
		"a.map(b, b)": "no all, exists",
		"'a' + b":     "does not join texts", "a + 'b'": "does not join texts", "a +": "its column 4", "(": "its column",
		"a" + strings.Repeat(" ", 4096): "it has 4097 bytes",
	} {
		if _, err := telemetry.Expression(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", bad, err, want)
		}
	}
	for value, want := range map[string]string{
		" request.host ": "%CEL(request.host)%", "string(response.code)": "%CEL(response.code)%", "string(size(a))": "%CEL(size(a))%",
		"string(a) == string(b)": "", "'%)'": "%CEL('%)')%", "')%'": "", "a": "%CEL(a)%",
	} {
		if got, err := telemetry.Value(value); want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("%s: %s, %v, want %s", value, got, err, want)
		}
	}
}
