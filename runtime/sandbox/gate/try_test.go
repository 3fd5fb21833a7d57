package gate
import ("testing";"os";"bufio";"encoding/json";"fmt")
func TestTry(t *testing.T){
 f,_:=os.Open("/work/shared/cases/escapes.jsonl"); sc:=bufio.NewScanner(f); sc.Buffer(nil,1<<22)
 for sc.Scan(){ var c struct{ID,Code,Expect string; Also []string}; json.Unmarshal(sc.Bytes(),&c)
  p,r:=Check(c.Code)
  okr := c.Expect=="reject"; for _,a:=range c.Also { if a=="reject" {okr=true} }
  if p==nil && !okr || p!=nil && c.Expect=="reject" { fmt.Println("MISMATCH",c.ID,c.Expect,c.Also,r) } else if p==nil {fmt.Println(c.ID,r)}
 }
}
