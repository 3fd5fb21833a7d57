package audit_test

func child(role string) int { return 2 }
