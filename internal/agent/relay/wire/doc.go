// Package wire reads and writes the messages of incremental xDS as bytes, so that the relay passes resources on without decoding them.
//
// DecodeRequest and DecodeResponse return names, versions and the positions of Resource messages; bodies stay in the encoded message.
// Codec passes encoded messages through gRPC as they are. HashNode compares the nodes of Envoys.
//
// It is pure: functions of bytes, without state. It must not know what resources mean. Start reading in response.go.
package wire
