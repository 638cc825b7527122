// Package memnet is a network within the process, with faults, and the certificates for it.
//
// Its connections are buffered like those of a kernel, and every wait is one that a synctest bubble
// takes for idle, so that servers and clients can run in virtual time. A Conn can be reset, and a
// partition can keep its data from the readers.
package memnet
