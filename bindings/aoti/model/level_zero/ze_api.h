// Stands for Level Zero's header, which torch's runtime of compiled models names for a macro that models here do not
// use.
#pragma once
