// Package logline finds the cause of a line of an access log: the object that made a proxy answer as it did, the field and its line, and
// what would be right.
//
// Explain takes a line as internal/accesslog reads it. The table there says what the line means. The rest comes from a control plane's
// debug pages: the request is replayed through the configuration that the proxy holds (/debug/explainz), and the objects behind the steps
// are read (/debug/configz) and compared with the line. For each place where a cause may be there is one function (places.go).
//
// It must not know how control plane's pages are reached. Lines and objects come from users: all text is printed through printable. Start
// reading at Explain.
package logline
