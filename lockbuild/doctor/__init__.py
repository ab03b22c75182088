"""What on this machine helps or hinders lockbuild: each module looks at one part, and changes nothing."""
