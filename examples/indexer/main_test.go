package main

import "fmt"

func Example_tidings() {
	if err := withTidings(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// in novels: emma
	// in novels: persuasion
	// about the sea: persuasion
	// about the sea: voyage
	// keywords: [irony islands love sea]
	// about islands now: 0
}

func Example_clientGo() {
	if err := withClientGo(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// in novels: emma
	// in novels: persuasion
	// about the sea: persuasion
	// about the sea: voyage
	// keywords: [irony islands love sea]
	// about islands now: 0
}
